# A store without fncache: no path is hashed, names that Windows keeps stay.
setting format.usefncache=no
new
varied
mkdir D; echo 1 >aux.txt; echo 2 >D/.e; printf 3 >"$(printf '%*s' 140 '' | tr ' ' x)"; commit 'names that fncache would change'
