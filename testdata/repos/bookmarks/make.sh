# Bookmarks: on heads and below them, two on one changeset, a divergent one, the
# special @, names with slashes, spaces and letters beyond ASCII.
new
for i in 1 2 3 4 5; do echo $i >>a; commit $i; done
hg update -q 1; echo side >b; commit side
hg bookmark -q -r 0 old; hg bookmark -q -r 4 main; hg bookmark -q -r 4 @; hg bookmark -q -r 5 feature/one
hg bookmark -q -r 3 'two words'; hg bookmark -q -r 2 'größe'; hg bookmark -q -r 5 main@elsewhere; hg bookmark -q -r 2 1x
