# Copies and renames: plain, with an edit, chained, over a removed file, of a
# directory, back to the old name, and across a merge.
new
lines 12 a >a; lines 5 b >b; mkdir d; echo 1 >d/1; echo 2 >d/2; commit base
hg copy -q a a2; commit 'copy'
hg move -q a2 a3; echo more >>a3; commit 'rename and edit'
hg move -q d e; commit 'rename directory'
hg remove -q b; commit 'remove b'
hg copy -q a b; commit 'copy over a removed name'
hg move -q a3 a4; hg move -q a4 a5; commit 'two renames in one'
hg move -q a5 a2; commit 'back to an old name'
hg update -q 3; hg move -q a moved; echo side >>moved; commit 'rename on a side'
hg merge -q --tool :other 7; commit 'merge over renames'
hg copy -q moved moved2; hg copy -q moved moved3; commit 'two copies of one'
