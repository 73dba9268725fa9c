#!/usr/bin/env bash
# versitygw.sh: runs versitygw, an S3 gateway of a directory, for the tests of the register of a pair that a team runs
# by itself (docs/decisions/0062-own-register.md).
#
#   versitygw.sh install        go install of the pinned version (idempotent)
#   versitygw.sh run CMD...     start it on a free port with an empty directory, run CMD, stop it, return the status of CMD
#
# CMD gets E2E_VERSITYGW_URL, E2E_VERSITYGW (the binary), a region and test credentials. The script needs Go and curl.
set -euo pipefail

VERSION=v1.8.0
NAME=versitygw
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
DIR=${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e/versitygw/$VERSION
# shellcheck source=scripts/emulator.sh
source "$HERE/emulator.sh"

healthy() { curl -sS -o /dev/null --max-time 5 "$ENDPOINT/" 2>/dev/null; }

do_install() {
  [ ! -x "$DIR/versitygw" ] || return 0
  mkdir -p "$DIR"
  (cd "$DIR" && GOBIN=$DIR GOFLAGS= CGO_ENABLED=0 "${GO:-go}" install "github.com/versity/versitygw/cmd/versitygw@$VERSION")
}

do_run() {
  [ -x "$DIR/versitygw" ] || die "not installed: run install first"
  local status=0
  TMP=$(mktemp -d)
  trap 'stop_emulator; rm -rf "$TMP"' EXIT
  RUN=$TMP PORT=$((10000 + RANDOM % 20000))
  ENDPOINT=http://127.0.0.1:$PORT
  mkdir "$TMP/data"
  export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=testtest AWS_REGION=us-east-1 AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null
  ROOT_ACCESS_KEY=test ROOT_SECRET_KEY=testtest start_emulator "$DIR/versitygw" --port "127.0.0.1:$PORT" posix "$TMP/data" >&2
  E2E_VERSITYGW_URL=$ENDPOINT E2E_VERSITYGW=$DIR/versitygw "$@" || status=$?
  return "$status"
}

case ${1:-} in
  install) do_install ;;
  run) shift; do_run "$@" ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
