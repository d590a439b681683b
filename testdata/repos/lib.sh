# Sourced by make-one before a repository's make.sh, which starts inside an empty
# directory and leaves the repository in ./repo. Everything that hg would take
# from its surroundings is fixed here: settings, user, clock, encoding, locale.
set -euo pipefail
umask 022
export HGRCPATH= HGPLAIN=1 HGENCODING=utf-8 LC_ALL=C.UTF-8 TZ=UTC EDITOR=false HGEDITOR=false HGMERGE=:other
unset HGUSER EMAIL HG HGPROF CHGHG

hgconfig=()      # more --config words, for every hg of this repository
clock=1700000000 # date of the next changeset or marker, in seconds since 1970

hg() {
	command hg --config devel.default-date="$clock 0" --config ui.username="Ann <ann@example.com>" \
		--config ui.merge=:other "${hgconfig[@]}" "$@"
}

# setting KEY=VALUE fixes a setting for all that follows.
setting() { hgconfig+=(--config "$1"); }

# keep KEY=VALUE is a setting that the repository's own hgrc keeps too, because
# hg needs it to open the repository.
keep() { setting "$1"; kept+=("$1"); }
kept=()

# new makes ./repo and enters it.
new() {
	hg init repo
	cd repo
	local k
	for k in "${kept[@]}"; do
		local key=${k%%=*}
		printf '[%s]\n%s = %s\n' "${key%%.*}" "${key#*.}" "${k#*=}" >>.hg/hgrc
	done
}

tick() { clock=$((clock + 60)); }

# commit MESSAGE [OPTION...] records the working directory, new and missing files too.
commit() {
	local message=$1
	shift
	hg addremove -q -s 0
	hg commit -q -m "$message" -d "$clock 0" "$@"
	tick
}

# lines N WORD prints N different lines.
lines() { local i; for ((i = 1; i <= $1; i++)); do echo "$2 line $i of $1"; done; }

# noise N SEED prints N bytes that do not compress.
noise() {
	python3 -c 'import hashlib, sys; sys.stdout.buffer.write(hashlib.shake_128(sys.argv[2].encode()).digest(int(sys.argv[1])))' "$1" "$2"
}

# varied makes the history that the repositories of one storage form share:
# inline and split logs, a rename, a merge, a branch, deltas and full texts.
varied() {
	lines 40 base >f; lines 200 wide >wide; commit base
	local i
	for ((i = 1; i <= 25; i++)); do
		sed -i "$((i * 7))s/.*/changed in round $i/" wide; echo "$i" >>f; noise 5600 "v$i" >blob; commit "round $i"
	done
	hg branch -q side; hg move -q f g; echo side >>g; commit 'rename on a branch'
	hg update -q default; sed -i '1s/.*/other/' f; commit 'edit the old name'
	hg merge -q --tool :other side; commit merge; hg bookmark -q mark -r 5; hg tag -q -d "$clock 0" v1
	hg phase -q -p 20
}
