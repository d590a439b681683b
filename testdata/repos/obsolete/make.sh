# Obsolescence: amended, pruned, split, folded and divergent changesets, an
# orphan, markers about unknown nodes, markers with metadata and with parents.
keep experimental.evolution=all
new
echo a >a; commit a; echo b >b; commit 'b, first try'; echo b2 >>b
hg commit -q --amend -m 'b, amended' -d "$clock 0"; tick
echo c >c; commit 'c, to be pruned'; hg update -q '.^'
hg debugobsolete -d "$clock 0" --record-parents "$(hg log -r 'desc("c, to be pruned")' -T '{node}')" -u Ann; tick
echo d >d; echo e >e; commit 'd and e, to be split'; split=$(hg log -r . -T '{node}')
hg update -q '.^'; echo d >d; commit d; one=$(hg log -r . -T '{node}'); echo e >e; commit e
hg debugobsolete -d "$clock 0" "$split" "$one" "$(hg log -r . -T '{node}')" -u Bob; tick
echo f >f; commit f; f=$(hg log -r . -T '{node}'); echo g >g; commit 'g, stays on the old f, an orphan'
hg update -q "$f"; hg update -q '.^'; echo f2 >f; commit 'f, another way'; f2=$(hg log -r . -T '{node}')
hg debugobsolete -d "$clock 0" "$f" "$f2"; tick
hg update -q "$f2"; hg update -q '.^'; echo f3 >f; commit 'f, a third way'; f3=$(hg log -r . -T '{node}')
hg debugobsolete -d "$clock 0" "$f" "$f3"; tick
hg debugobsolete -d "$clock 0" 1111111111111111111111111111111111111111 2222222222222222222222222222222222222222; tick
hg debugobsolete -d "$clock 0" 3333333333333333333333333333333333333333; tick
hg update -q "$f3"; echo p >p; commit 'public at last'; hg phase -q -p .
