# With a persistent nodemap beside changelog and manifest.
setting format.use-persistent-nodemap=yes
keep storage.revlog.persistent-nodemap.slow-path=allow
export HGTEST_UUIDFILE=$PWD/uuid
printf 'seed' >"$HGTEST_UUIDFILE"
new
hg debugbuilddag -o '+2100'
hg debugupdatecache
