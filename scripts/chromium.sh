#!/usr/bin/env bash
# chromium.sh: installs Chromium for tests in a real browser.
#
#   chromium.sh install   install Chromium by apt-get, as root, unless a browser exists
#   chromium.sh path      print the path of the browser
#
# Settings (environment):
#   CHROMIUM   the browser to use   (the first of chromium, chromium-browser, google-chrome)
set -euo pipefail

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e

say() { printf 'chromium: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

find_chromium() {
  local c
  for c in ${CHROMIUM:-chromium chromium-browser google-chrome}; do
    command -v "$c" && return 0
  done
  return 1
}

do_install() {
  local at
  mkdir -p "$CACHE"
  exec 8>"$CACHE/install.lock" # with-emulators.sh has the same lock: one apt-get at a time
  flock 8
  if at=$(find_chromium); then
    say "already installed: $at"
    return 0
  fi
  [ -z "${CHROMIUM:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || die "please install chromium, or set CHROMIUM"
  say "apt-get install chromium"
  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install chromium fonts-dejavu-core; } \
    >"$CACHE/apt.log" 2>&1 || { tail -20 "$CACHE/apt.log" >&2; die "apt-get install failed"; }
  find_chromium >/dev/null || die "apt-get installed chromium, but it is not on the PATH"
}

case ${1:-} in
  install) do_install ;;
  path) find_chromium || die "not installed: run scripts/chromium.sh install first (make test does)" ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
