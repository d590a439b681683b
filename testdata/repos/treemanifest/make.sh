# A requirement that vcsd refuses: a manifest of its own for each directory.
setting experimental.treemanifest=yes
new
mkdir d; echo a >d/a; commit a; echo b >d/b; commit b
