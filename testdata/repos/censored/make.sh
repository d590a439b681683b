# One revision of a file is censored: its text is a tombstone, its hash that of
# what was there.
setting extensions.censor=
new
for i in 1 2 3 4 5; do lines 20 "secret $i" >f; echo "$i" >g; commit "$i"; done
bad=$(hg log -r 2 -T '{node}')
hg censor -q -r "$bad" f
