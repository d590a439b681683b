#!/bin/bash
# Records which hooks stock hg serve runs for pushes and pulls of all kinds over
# HTTP, in which order, with which environment, and what the client then reads.
# Usage: record.sh DIR [GROUP...]   writes one NAME.txt a scenario, of all groups
# or of those named. Nodes are replaced by
# N<rev> of the client's repository; ports, transaction ids and paths by words.
# SERVE is the command of the server, hg serve by default.
set -u
OUT=${1:?}; shift; mkdir -p "$OUT"; OUT=$(cd "$OUT" && pwd)
[ $# -gt 0 ] || set -- changes drafts markers variables old refusals alone reading
HG=${HG:-hg}
SERVE=${SERVE:-$HG serve}
W=$(mktemp -d); trap '[ -n "${SRV:-}" ] && kill "$SRV"; rm -rf "$W"' EXIT
printf '[ui]\nusername=u\n[devel]\ndefault-date=0 0\n' >"$W/hgrc"
export HGRCPATH=$W/hgrc HGPLAIN=1 HGENCODING=utf-8 LC_ALL=C.UTF-8 no_proxy=127.0.0.1
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY
POINTS='prechangegroup pretxnchangegroup pretxnopen pretxnclose pretxnclose-bookmark pretxnclose-phase
 prepushkey pushkey prelistkeys listkeys preoutgoing outgoing changegroup incoming txnclose txnclose-bookmark txnclose-phase txnabort'

# What each hook leaves: its variables, and what hg log shows it.
cat >"$W/dump.sh" <<'D'
{
 echo "== $HG_HOOKTYPE"
 env -0 | sort -z | tr '\0' '\n' | grep -a '^HG_\|^HGPLAIN=' | grep -av '^HG_HOOK'
 [ "$PWD" = "$ROOT" ] && echo 'cwd=ROOT' || echo "cwd=$PWD"
 case $HG_HOOKTYPE in pre*|txnabort) echo "sees $("$HG" log -T '{node}:{phase}{bookmarks % ":{bookmark}"} ' 2>&1)";; esac
} >>"$LOG"
D
serve() { # serve [--config x=y]...: a fresh server on $W/r
  [ -n "${SRV:-}" ] && { kill "$SRV"; wait "$SRV" 2>/dev/null; }
  local args=() p; for p in $POINTS; do args+=(--config "hooks.$p=. $W/dump.sh"); done
  PORT=$(python3 -c 'import socket;s=socket.socket();s.bind(("127.0.0.1",0));print(s.getsockname()[1])')
  ROOT=$W/r LOG=$W/log $SERVE -R "$W/r" -a 127.0.0.1 -p "$PORT" --config web.push_ssl=no --config web.allow-push='*' \
    --config experimental.evolution=all "${args[@]}" "$@" >"$W/srv" 2>&1 & SRV=$!
  URL=http://127.0.0.1:$PORT
  for _ in $(seq 200); do curl -s -o /dev/null "$URL/?cmd=capabilities" && break; done
  : >"$W/log"
}
fresh() { cd "$W"; rm -rf "$W/r" "$W/c"; $HG init "$W/r"; $HG init "$W/c"; cd "$W/c" || exit 1; }
ci() { echo "$1" >>"${2:-f}"; $HG ci -qAm "$1"; }
sums() { sed "s#$W/r#ROOT#g;s#$W#WORK#g;s#127.0.0.1:$PORT#HOST#g;s/TXN:[0-9a-f]\{40\}/TXN:ID/g"; }
nodes() { local s=; while read -r r n; do s="$s;s/$n/N$r/g;s/${n:0:12}/n$r/g"; done < <($HG -R "$W/c" --hidden log -T '{rev} {node}\n'); LC_ALL=C sed "$s"; }
scene() { # scene NAME COMMAND...: records one exchange
  local name=$1; shift; : >"$W/log"
  { echo "\$ $*" | nodes | sums; "$@" >"$W/o" 2>&1; echo "exit $?"; nodes <"$W/o" | sums; nodes <"$W/log" | sums; } >"$OUT/$name.txt"
}
api() { curl -s -X POST -H 'Content-Type: application/mercurial-0.1' -H "X-HgArg-1: $2" --data '' "$URL/?cmd=$1"; }

changes() {
fresh; serve; ci a; ci b
scene first $HG push "$URL"
ci c; $HG up -q 0; ci d g; $HG merge -q 2; $HG ci -qm m; $HG book bk
scene bookmark-new $HG push -f -B bk "$URL"
scene nothing $HG push "$URL"
$HG book -f -r 0 bk
scene bookmark-move $HG push -f -B bk "$URL"
$HG book -d bk
scene bookmark-delete $HG push -B bk "$URL"
scene pull $HG clone -q -U --pull "$URL" "$W/d1"
scene stream $HG clone -q -U --stream "$URL" "$W/d2"
scene incremental $HG -R "$W/d1" pull "$URL"
scene listkeys api listkeys namespace=bookmarks
scene pushkey api pushkey "namespace=bookmarks&key=raw&old=&new=$($HG log -r 0 -T '{node}')"
scene listkeys-one api listkeys namespace=bookmarks
scene pushkey-stale api pushkey "namespace=bookmarks&key=raw&old=&new=$($HG log -r 1 -T '{node}')"
ci e; $HG book bk2
scene no-compat $HG push --config devel.legacy.exchange=bookmarks -B bk2 "$URL"
}
drafts() {
fresh; serve --config phases.publish=no; ci a; ci b; ci c
scene draft $HG push "$URL"
$HG phase -p 1
scene phase-only $HG push "$URL"
$HG phase -p 2; ci d
scene phase-and-draft $HG push "$URL"
$HG phase -p 3
scene phase-pushkey $HG push --config devel.legacy.exchange=phases "$URL"
ci e; scene phase-setup $HG push -q "$URL"; rm "$OUT/phase-setup.txt"
scene phase-raw api pushkey "namespace=phases&key=$($HG log -r 4 -T '{node}')&old=1&new=0"
}
markers() {
fresh; serve --config phases.publish=no; printf '[experimental]\nevolution=all\n' >>.hg/hgrc; ci a; ci b; $HG ci -q --amend -m b2
scene obsmarkers $HG push "$URL"
$HG ci -q --amend -m b3
scene obsmarkers-more $HG push -f "$URL"
$HG debugobsolete "$($HG log -r tip -T '{node}')" 2>/dev/null
scene obsmarkers-only $HG push -f "$URL"
}
variables() {
fresh; serve --config push.pushvars.server=yes; ci a
scene pushvars $HG push --pushvars one=1 --pushvars 'Two=a b' "$URL"
fresh; serve --config server.bookmarks-pushkey-compat=no; ci a; $HG book bk
scene compat-off $HG push -B bk "$URL"
}
old() {
fresh; serve; ci a; ci b
scene bundle1 $HG push --config devel.legacy.exchange=bundle1 "$URL"
ci c; $HG book bk
scene bundle1-bookmark $HG push --config devel.legacy.exchange=bundle1 -B bk "$URL"
}
refusals() { # what the client reads
for p in prechangegroup pretxnchangegroup pretxnopen pretxnclose pretxnclose-bookmark pretxnclose-phase prepushkey changegroup txnclose; do
  fresh; serve --config "hooks.$p.no=echo said by the hook; exit 3"; ci a; $HG book bk
  scene "veto-$p" $HG push -B bk "$URL"
  scene "veto-$p-bundle1" $HG push --config devel.legacy.exchange=bundle1 "$URL"
done
fresh; serve; ci a; scene veto-setup $HG push -q "$URL"; rm "$OUT/veto-setup.txt"
serve --config "hooks.prepushkey.no=echo said by the hook; exit 3"
scene veto-pushkey-raw api pushkey "namespace=bookmarks&key=raw&old=&new=$($HG log -r 0 -T '{node}')"
for p in prelistkeys preoutgoing listkeys outgoing; do
  serve --config "hooks.$p.no=echo said by the hook; exit 3"
  scene "veto-$p" $HG clone -q -U --pull "$URL" "$W/d-$p"
done
serve --config "hooks.pretxnopen.no=kill -9 \$\$"; ci b
scene veto-signal $HG push "$URL"
}
alone() { # refusals where there are no changesets
fresh; serve --config phases.publish=no; ci a; $HG push -q "$URL"; $HG book bk; local n; n=$($HG log -r 0 -T '{node}')
for p in pretxnopen prepushkey pretxnclose-bookmark pretxnclose txnclose; do
  serve --config phases.publish=no --config "hooks.$p.no=echo said by the hook; exit 3"
  scene "alone-$p" $HG push -B bk "$URL"
  $HG book -d bk; [ $p = txnclose ] && $HG push -q -B bk "$URL"; $HG book bk
  scene "alone-$p-part" $HG push --config devel.legacy.exchange=bookmarks -B bk "$URL"
  scene "alone-$p-raw" api pushkey "namespace=bookmarks&key=raw&old=&new=$n"
done
for p in prepushkey pretxnclose-phase pretxnclose; do
  fresh; serve --config phases.publish=no; ci a; $HG push -q "$URL"; n=$($HG log -r 0 -T '{node}'); $HG phase -p 0
  serve --config phases.publish=no --config "hooks.$p.no=echo said by the hook; exit 3"
  scene "alone-$p-moved-raw" api pushkey "namespace=phases&key=$n&old=1&new=0"
  scene "alone-$p-moved-part" $HG push --config devel.legacy.exchange=phases "$URL"
  scene "alone-$p-moved" $HG push "$URL"
done
serve --config phases.publish=no
scene alone-moved-again-raw api pushkey "namespace=phases&key=$n&old=1&new=0"
$HG push -q "$URL"
scene alone-moved-late-raw api pushkey "namespace=phases&key=$n&old=1&new=0"
}
reading() { # refusals of what old clients read
fresh; serve; ci a; $HG push -q "$URL"
for p in prelistkeys preoutgoing; do
  serve --config "hooks.$p.no=echo said by the hook; exit 3"
  scene "read-$p-keys" api listkeys namespace=bookmarks
  scene "read-$p-push" $HG push "$URL"
  scene "read-$p-bundle1" $HG clone -q -U --pull --config devel.legacy.exchange=bundle1 "$URL" "$W/d-$p"
done
}

for group; do "$group"; done
