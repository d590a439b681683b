# All requirements in .hg/requires.
setting format.use-share-safe=no
new
varied
