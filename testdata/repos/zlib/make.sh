# Chunks compressed with zlib; inline and split logs.
setting format.revlog-compression=zlib
new
varied
