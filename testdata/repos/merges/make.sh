# Merges of texts: clean, conflicting (other side taken), criss-cross, of a merge
# with a merge, one that changes nothing, and file revisions with two parents.
new
lines 30 base >f; echo one >g; commit base
sed -i '3s/.*/left/' f; commit 'left'
hg update -q 0; sed -i '25s/.*/right/' f; commit 'right'
hg merge -q --tool :merge 1; commit 'clean merge'
hg update -q 1; sed -i '10s/.*/left two/' f; echo l >l; commit 'left two'
hg update -q 2; sed -i '10s/.*/right two/' f; echo r >r; commit 'right two'
hg merge -q --tool :other 4; commit 'conflict, other taken'
hg update -q 4; hg merge -q --tool :local 5; commit 'criss-cross'
hg update -q 6; hg merge -q --tool :other 7; commit 'merge of merges'
hg update -q 3; hg merge -q --tool :local 8; hg revert -q -r 3 --all; commit 'merge that keeps one side'
hg update -q 8; echo x >>g; commit 'g'; hg update -q 9; hg merge -q --tool :other 10; commit 'last merge'
