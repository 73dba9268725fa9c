#!/usr/bin/env bash
# node-tools.sh: installs and runs sets of programs for Node.
#
#   node-tools.sh install FOLDER                install the packages in FOLDER/package-lock.json (idempotent)
#   node-tools.sh run FOLDER PROGRAM [ARG...]   run a program of the set
#   node-tools.sh path FOLDER                   print the path of the node_modules of the set
#
# The sets:
#   scripts/redocly     redocly, which checks an OpenAPI document by rules
#   client/typescript   openapi-typescript and tsc, which build the TypeScript client
#   examples/react      React, esbuild and tsc, which build the example
#
# FOLDER/package.json names the versions. To write FOLDER/package-lock.json, run
# npm install --package-lock-only --omit-lockfile-registry-resolved in a copy of FOLDER.
#
# Settings (environment):
#   NT_DIR   the folder of the installations   (${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e)
# The script needs Node 20.3 and npm.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e
SET=${2:-}
NAME=$(basename "$SET")
DIR=${NT_DIR:-$CACHE}/$NAME
LOCK=$ROOT/$SET/package-lock.json # npm refuses a package with another hash

say() { printf '%s: %s\n' "$NAME" "$*" >&2; }
die() { say "$*"; exit 1; }

installed() { cmp -s "$LOCK" "$DIR/installed.json"; }

require_installed() { installed || die "not installed: run scripts/node-tools.sh install $SET first (make test does)"; }

do_install() {
  command -v npm >/dev/null || die "npm is needed"
  mkdir -p "$CACHE"
  exec 8>"$CACHE/$NAME.lock"
  flock 8
  if installed; then
    say "already installed in $DIR"
    return 0
  fi
  say "npm ci"
  rm -rf "$DIR"
  mkdir -p "$DIR"
  cp "$ROOT/$SET/package.json" "$LOCK" "$DIR"
  npm ci --prefix "$DIR" --silent --no-audit --no-fund --ignore-scripts >"$CACHE/$NAME.log" 2>&1 ||
    { tail -20 "$CACHE/$NAME.log" >&2; die "npm ci failed"; }
  cp "$LOCK" "$DIR/installed.json"
  say "installed in $DIR"
}

case ${1:-}:$SET in
  install:?*) do_install ;;
  run:?*)
    require_installed
    exec "$DIR/node_modules/.bin/${3:?a program}" "${@:4}"
    ;;
  path:?*)
    require_installed
    echo "$DIR/node_modules"
    ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
