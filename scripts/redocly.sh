#!/usr/bin/env bash
# redocly.sh: the Redocly CLI, which checks an OpenAPI document by rules.
#
#   redocly.sh install     install it by npm (idempotent)
#   redocly.sh run ARG...  redocly ARG..., which asks no other host
#
# redocly/package.json names the version; npm install --package-lock-only --omit-lockfile-registry-resolved in a copy
# of redocly/ writes its package-lock.json.
#
# Settings (environment):
#   RD_DIR   the installation   (${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e/redocly)
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LOCK=$HERE/redocly/package-lock.json # npm refuses a file with another hash
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e
DIR=${RD_DIR:-$CACHE/redocly}

say() { printf 'redocly: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

installed() { cmp -s "$LOCK" "$DIR/installed.json"; }

do_install() {
  command -v npm >/dev/null || die "npm is needed"
  mkdir -p "$CACHE"
  exec 8>"$CACHE/redocly.lock"
  flock 8
  if installed; then
    say "already installed in $DIR"
    return 0
  fi
  say "npm ci"
  rm -rf "$DIR"
  mkdir -p "$DIR"
  cp "$HERE/redocly/package.json" "$LOCK" "$DIR"
  npm ci --prefix "$DIR" --silent --no-audit --no-fund --ignore-scripts >"$CACHE/npm.log" 2>&1 ||
    { tail -20 "$CACHE/npm.log" >&2; die "npm ci failed"; }
  cp "$LOCK" "$DIR/installed.json"
  say "installed in $DIR"
}

case ${1:-} in
  install) do_install ;;
  run)
    shift
    installed || die "not installed: run scripts/redocly.sh install first (make test does)"
    export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
    exec "$DIR/node_modules/.bin/redocly" "$@"
    ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
