# The requirements of the store in .hg/store/requires.
setting format.use-share-safe=yes
new
varied
