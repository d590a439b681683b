# Changeset metadata: users and messages beyond ASCII, several lines, blank lines
# at the end, dates before 1970 and in odd zones, extras of graft and amend, a
# changeset without files.
new
echo a >a; commit 'first line

third line   
' -u 'Zoë Müller <zoë@example.org>'
echo b >>a; hg commit -q -m 'before the epoch' -d '-86400 0'; echo c >>a; hg commit -q -m 'east' -d '1700000000 -20700'; echo d >>a; hg commit -q -m 'west' -d '1700000001 34200'
echo e >>a; hg commit -q -m 'far ahead' -d '2147483647 0'; echo f >>a; commit '日本語の説明' -u 'no address'; echo g >>a; commit 'user without spaces' -u x@y
hg branch -q empty; commit 'only the branch'; hg update -q 1; echo n >n; commit n; hg graft -q -r 3 --tool :other -d "$clock 0"; tick
hg graft -q -r 4 --log --tool :other -d "$clock 0"; tick; echo tab >t; commit $'tab\tand \\ backslash \x01'; echo am >am; commit 'to amend'; hg commit -q --amend -m amended -d "$clock 0" --config experimental.evolution=
