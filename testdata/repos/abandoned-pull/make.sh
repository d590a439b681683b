# hg was killed inside a pull that had split changelog and manifest: the journal
# holds more than lengths.
hg init from
(cd from; hg debugbuilddag -o '+3000')
new
hg pull -q -r 100 ../from
hg pull -q ../from --config hooks.pretxnclose.die='kill -9 $PPID' 2>/dev/null || true
test -e .hg/store/journal
