# Files above 100 bytes are stored elsewhere: their revisions hold pointers and
# carry the flag extstored.
keep extensions.lfs=
setting 'lfs.track=size(">100B")'
setting lfs.usercache=$PWD/cache
new
echo small >small; noise 500 a >big; commit 'a big file'; noise 600 b >big; commit 'changed'; hg move -q big moved; commit 'renamed'
