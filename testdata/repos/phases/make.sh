# All phases that are exchanged or kept back: public, draft and secret, with
# draft heads beside public ones and secret ones on top of both.
new
for i in 0 1 2 3 4 5; do echo $i >>a; commit "$i"; done
hg update -q 1; for i in 6 7 8; do echo $i >b$i; commit "$i"; done
hg update -q 3; for i in 9 10; do echo $i >c$i; commit "$i" -s; done
hg update -q null; rm -f ./*; echo r >r; commit 'secret root' -s
hg phase -q -p 2; hg phase -q -p 6; hg phase -q -fs 5; hg phase -q -fs 8
