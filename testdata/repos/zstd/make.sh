# Chunks compressed with zstd, asked for by name; inline and split logs.
setting format.revlog-compression=zstd
new
varied
