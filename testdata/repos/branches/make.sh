# Named branches: two heads on one, a closed one, one closed and reopened, one
# merged into default, a name with spaces and letters beyond ASCII, two roots.
new
echo base >base; commit base
hg branch -q stable; echo s1 >s; commit 's1'
hg update -q default; echo d1 >d; commit 'd1'
hg update -q stable; echo s2 >>s; commit 's2'
hg branch -q closed; echo c >c; commit 'c1'; commit 'close' --close-branch
hg update -q stable; echo two >t; commit 'second head of stable'
hg update -q 3; hg branch -q reopened; echo r >r; commit 'r1'; commit 'close' --close-branch; echo r2 >>r; commit 'r2, open again'
hg update -q default; hg branch -q 'naïve feature'; echo f >f; commit 'feature'
hg update -q default; hg merge -q 'naïve feature'; commit 'merge feature'
hg update -q 'naïve feature'; commit 'close merged branch' --close-branch
hg update -q default; echo d2 >>d; commit 'd2'; hg update -q 2; echo d3 >d3; commit 'd3, closed head of default'; commit 'close one head' --close-branch
hg update -q null; rm -f ./*; hg branch -qf default; echo other >root2; commit 'second root'
hg update -q null; rm -f ./*; hg branch -qf alone; echo alone >alone; commit 'third root, its own branch'
