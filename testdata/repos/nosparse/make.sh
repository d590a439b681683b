# General deltas without the long spans of sparse-revlog.
setting format.sparse-revlog=no
new
varied
