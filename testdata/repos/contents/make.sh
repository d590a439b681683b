# Contents that are hard to store: binary, large, without a last newline, with
# CR LF, starting as copy metadata does, deltas of every shape.
new
noise 40000 a >noise; commit 'binary'
{ yes 'the same line again' || true; } | head -c 1500000 >large; commit 'large, compresses well'
printf 'no newline at the end' >tail; printf 'dos\r\nlines\r\n' >dos; printf '\0\0\0' >nul; commit 'small odd ones'
printf '\1\nlooks like metadata\n' >meta; printf '\1\ncopy: x\n\1\nreally\n' >meta2; commit 'texts that start with the metadata mark'
{ head -c 700000 large; noise 500 b; tail -c 700000 large; } >l2; mv l2 large; commit 'large changed in the middle'
{ noise 300 c; cat large; noise 300 d; } >l2; mv l2 large; commit 'large grows at both ends'
noise 40000 e >noise; commit 'binary, all different'
tail -c 20000 noise >n2; mv n2 noise; commit 'binary loses its first half'
: >large; commit 'large emptied'; noise 140000 f >big2; noise 60000 g >big3; commit 'data that outgrows an inline log at once'
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do { noise 3000 "x$i"; lines 40 y; } >grow; cat grow >>grown; commit "grow $i"; done
