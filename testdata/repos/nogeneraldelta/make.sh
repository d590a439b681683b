# Deltas always against the revision before.
setting format.usegeneraldelta=no
setting format.sparse-revlog=no
new
varied
