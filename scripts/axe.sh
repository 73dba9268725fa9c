#!/usr/bin/env bash
# axe.sh: installs axe-core 4.14.1, which finds barriers on pages, for tests in a real browser.
#
#   axe.sh install   install axe-core (idempotent)
#   axe.sh path      print the path of the script of axe-core
#
# Settings (environment):
#   AXE_DIR   the installation   (${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e/axe-core-4.14.1)
# The script needs npm.
set -euo pipefail

VERSION=4.14.1
SHA512=1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b734f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e
DIR=${AXE_DIR:-$CACHE/axe-core-$VERSION}

say() { printf 'axe: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

do_install() {
  local tmp
  mkdir -p "$CACHE"
  exec 8>"$CACHE/axe.lock"
  flock 8
  if [ -f "$DIR/axe.min.js" ]; then
    say "already installed in $DIR"
    return 0
  fi
  command -v npm >/dev/null || die "npm is needed"
  say "npm pack axe-core@$VERSION"
  tmp=$(mktemp -d "$CACHE/.axe.XXXXXX")
  (cd "$tmp" && npm pack --silent "axe-core@$VERSION" >npm.log 2>&1) || { tail -20 "$tmp/npm.log" >&2; die "npm pack failed"; }
  echo "$SHA512  $(echo "$tmp"/*.tgz)" | sha512sum -c --quiet - || die "axe-core@$VERSION: wrong checksum"
  tar -xzf "$tmp"/*.tgz -C "$tmp" package/axe.min.js package/LICENSE
  mkdir -p "$DIR"
  mv "$tmp"/package/* "$DIR"
  rm -rf "$tmp"
  say "installed in $DIR"
}

case ${1:-} in
  install) do_install ;;
  path) [ -f "$DIR/axe.min.js" ] && echo "$DIR/axe.min.js" || die "not installed: run scripts/axe.sh install first (make test does)" ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
