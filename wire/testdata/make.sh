#!/usr/bin/env bash
# Makes the files beside it with a real hg (6.3.2): bundles in all forms, and
# what a client and hg serve say to each other during a push and a clone.
#
#	make.sh
set -euo pipefail
cd "$(dirname "$0")"
out=$PWD
work=$(mktemp -d)
pids=()
cleanup() {
	kill "${pids[@]}" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
export HGRCPATH=$work/hgrc HGPLAIN=1 HGENCODING=utf-8 LC_ALL=C.UTF-8 TZ=UTC PYTHONDONTWRITEBYTECODE=1
cat >"$HGRCPATH" <<'RC'
[ui]
username = Ann <ann@example.com>
[devel]
default-date = 1700000000 0
[experimental]
evolution = all
evolution.exchange = yes
changegroup3 = yes
[web]
push_ssl = no
allow_push = *
[server]
bookmarks-pushkey-compat = no
RC

cd "$work"
hg init a
cd a
for i in 1 2 3 4 5; do
	seq $((i * 40)) >file
	echo $i >"dir $i.txt"
	hg ci -qAm "changeset $i"
done
hg tag -q v1
hg up -q 1
hg branch -q stable
seq 30 70 >file
hg ci -qm 'on stable'
hg ci -qm 'closed' --close-branch
hg up -q 3
hg cp -q file copy
hg ci -qm 'a copy'
hg merge -q stable --tool :local
hg ci -qm 'a merge'
hg bookmark -q mark
echo amended >>copy
hg ci -qm 'to be replaced'
old=$(hg log -r . -T '{node}')
hg up -q '.^'
echo better >>copy
hg ci -qm 'successor'
hg bookmark -qf mark
hg debugobsolete -q --record-parents "$old" "$(hg log -r . -T '{node}')" -u 'Änne'
hg debugobsolete -q "$(printf '%040d' 1)"
hg debugobsolete -q "$(printf '%040d' 2)" "$(printf '%040d' 3)" "$(printf '%040d' 4)" -d '1500000000 -7200' --flags 1
hg phase -qp 3

for c in none gzip bzip2; do hg bundle -qa -t $c-v1 "$out/$c-v1.hg"; done
for c in none gzip bzip2 zstd; do hg bundle -qa -t $c-v2 "$out/$c-v2.hg"; done
hg bundle -qa -t 'none-v2;cg.version=03' "$out/cg3.hg"
hg bundle -qa -t 'none-v2;obsolescence=yes;phases=yes' "$out/markers.hg"
cp .hg/store/obsstore "$out/obsstore1"
hg debugobsolete >"$out/obsstore1.txt"
hg init "$work/old" --config format.obsstore-version=0
hg -R "$work/old" debugobsolete -q "$old" "$(hg log -r . -T '{node}')" -u 'Änne' -d '1500000000 -7200' --config format.obsstore-version=0
hg -R "$work/old" debugobsolete -q "$(printf '%040d' 1)" --config format.obsstore-version=0
cp "$work/old/.hg/store/obsstore" "$out/obsstore0"
hg -R "$work/old" debugobsolete >"$out/obsstore0.txt"

hg init "$work/b"
cd "$work/b"
hg serve -a 127.0.0.1 -p 0 --print-url >"$work/url" 2>/dev/null &
pids+=($!)
while [ ! -s "$work/url" ]; do :; done
python3 "$out/record.py" "$(sed 's,/$,,' "$work/url")" "$out/push" >"$work/port" &
pids+=($!)
while [ ! -s "$work/port" ]; do :; done
url=http://127.0.0.1:$(cat "$work/port")/
cd "$work/a"
hg push -q -r 2 "$url"
hg push -q --new-branch -B mark "$url"
hg up -q mark
echo more >>copy
hg ci -qm 'on the bookmark'
hg push -qfr mark "$url"
hg clone -qU "$url" "$work/c"
