# File names that the store must encode: spaces, capitals, letters beyond ASCII,
# bytes that are no UTF-8, names that Windows keeps for itself, trailing dots and
# spaces, names that look like the store's own, names near and past the length at
# which a path is hashed.
setting ui.portablefilenames=ignore
new
mkdir -p long 'a dir' 'dir.hg' 'dir.i' 'dir.d' 'dir.' 'dir ' .hidden 'UPPER/Lower' aux 'x.hg.hg/y.i.d'
for f in 'a b' ' lead' 'trail ' 'trail.' '.dot' '..dots' '...' 'aux.txt' 'AUX' 'con' 'prn.c' 'nul.' 'com1' 'com0' 'com10' 'lpt9.x' 'aux/aux' \
	'a~b' 'tilde~7e' 'under_score' '_' '__' 'Aa_Bb' 'UPPER/Lower/MiXed' 'a:b' 'a"b' 'a<b>c|d?e*f' 'back\slash' 'per%20cent' \
	'data' '00changelog.i' 'fncache' 'x.i' 'x.d' 'dir.hg/f' 'dir.i/f' 'dir.d/f' 'dir./f' 'dir /f' '.hidden/.f' 'x.hg.hg/y.i.d/z' \
	'grün' '日本/語' 'e'$'\xcc\x81' 'latin-'$'\xe9' $'tab\tx' $'bell\a' $'\x7f' 'a dir/a file'; do
	mkdir -p "$(dirname "$f")"; printf '%s' "$f" >"$f"
done
commit 'odd names'
# One path for each length around 120, where the encoded path is hashed instead; then far past it.
for n in 100 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 160 240; do
	f=$(printf 'long/%*s' $((n - 5)) '' | tr ' ' x); printf '%s' "$n" >"$f"
done
deep=deep; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do deep+="/Level$i.Of Many"; done; mkdir -p "$deep"; echo deep >"$deep/leaf.txt"
deep=d; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do deep+="/aux$((i % 3))"; done; mkdir -p "$deep"; echo deep >"$deep/$(printf '%*s' 80 '' | tr ' ' Y).ext"
commit 'long names'
for f in 'aux.txt' 'trail.' 'UPPER/Lower/MiXed' "$deep/$(printf '%*s' 80 '' | tr ' ' Y).ext"; do echo more >>"$f"; done; commit 'edit some'
