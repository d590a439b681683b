# Tags: on several branches, moved, removed, on one changeset twice, with a name
# beyond ASCII.
new
echo a >a; commit a; echo b >>a; commit b
tag() { hg tag -q -d "$clock 0" "$@"; tick; }
tag v1 -r 0; tag v2; hg branch -q stable; echo s >s; commit s; tag v1.1; tag 'über' -r 1
hg update -q default; echo c >>a; commit c; tag -f v2; tag --remove v1; tag same1 same2 -r 0
