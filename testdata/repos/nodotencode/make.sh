# Leading dots and spaces are not encoded in the store's paths.
setting format.dotencode=no
new
varied
mkdir ' d'; echo 1 >.dot; echo 2 >' space'; echo 3 >' d/.e'; commit 'names that dotencode would change'
