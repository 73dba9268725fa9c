#!/usr/bin/env bash
# need.sh cc|COMMAND:PACKAGE...: installs missing commands. It prints nothing if no command is missing.
#
# For each missing COMMAND the script installs the Debian PACKAGE by apt-get. Without root it fails and names the
# packages. An empty COMMAND always counts as missing. cc is a C compiler (CC, or gcc) that finds the headers of
# the C library: go test -race needs such a compiler.
set -euo pipefail

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e

say() { printf 'need: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

[ $# -gt 0 ] || { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }

have_cc() { echo '#include <stdlib.h>' | ${CC:-gcc} -E - >/dev/null 2>&1; }

packages=()
for want; do
  case $want in
    cc) have_cc || packages+=(gcc libc6-dev) ;;
    *:?*) command -v "${want%%:*}" >/dev/null || packages+=("${want#*:}") ;;
    *) die "$want: not COMMAND:PACKAGE" ;;
  esac
done
[ ${#packages[@]} -gt 0 ] || exit 0

[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || die "please install: ${packages[*]}"
say "apt-get install ${packages[*]}"
mkdir -p "$CACHE"
exec 8>"$CACHE/install.lock" # other scripts have the same lock: one apt-get at a time
flock 8
{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${packages[@]}"; } \
  >"$CACHE/apt.log" 2>&1 || { tail -20 "$CACHE/apt.log" >&2; die "apt-get install failed"; }
