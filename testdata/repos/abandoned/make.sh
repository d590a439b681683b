# hg was killed inside the transaction of a commit: store/journal tells how far
# back the files go.
new
varied
echo lost >lost; echo lost >>wide; hg addremove -q
hg commit -q -m lost -d "$clock 0" --config hooks.pretxnclose.die='kill -9 $PPID' 2>/dev/null || true
test -e .hg/store/journal
