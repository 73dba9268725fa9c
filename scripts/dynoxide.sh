#!/usr/bin/env bash
# dynoxide.sh: runs Dynoxide 1.2.1, a second engine with DynamoDB's protocol, for end-to-end tests.
#
#   dynoxide.sh install   install Dynoxide (idempotent)
#   dynoxide.sh start     start in the background, wait until Dynoxide answers, print the endpoint
#   dynoxide.sh stop      stop the process of `start`
#
# Settings (environment):
#   DX_PORT   port on 127.0.0.1                     (8000)
#   DX_DIR    the installation                      (${XDG_CACHE_HOME:-$HOME/.cache}/dynoxide/1.2.1)
#   DX_RUN    directory for the pid and the log of this instance (DX_DIR/run)
# The state is in memory: each start is empty. The script needs Linux on x86-64, npm and curl.
set -euo pipefail

NAME=dynoxide
VERSION=1.2.1
NPM=@dynoxide/linux-x64@$VERSION
SHA512=b011ea97127d00d90b96e1646117dde6bf18d00a457b0e0584eae5860440803e17cc4a053ae904a359ee053435fa34eda1fab09f83564369344e7e663538e052
DIR=${DX_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/dynoxide/$VERSION}
RUN=${DX_RUN:-$DIR/run}
PORT=${DX_PORT:-8000}
ENDPOINT=http://127.0.0.1:$PORT
# shellcheck source=scripts/emulator.sh
source "$(dirname "${BASH_SOURCE[0]}")/emulator.sh"

do_install() {
  local tmp
  [ "$(uname -sm)" = 'Linux x86_64' ] || die "only Linux on x86-64 is supported, not $(uname -sm)"
  command -v npm >/dev/null || die "npm is needed"
  mkdir -p "$DIR"
  exec 9>"$DIR/.lock"
  flock 9
  if [ -x "$DIR/dynoxide" ]; then
    say "already installed in $DIR"
    return 0
  fi
  say "npm pack $NPM"
  tmp=$(mktemp -d "$DIR/.npm.XXXXXX")
  (cd "$tmp" && npm pack --silent "$NPM" >npm.log 2>&1) || { tail -20 "$tmp/npm.log" >&2; die "npm pack failed"; }
  echo "$SHA512  $(echo "$tmp"/*.tgz)" | sha512sum -c --quiet - || die "$NPM: wrong checksum"
  tar -xzf "$tmp"/*.tgz -C "$tmp"
  chmod +x "$tmp/package/dynoxide"
  mv "$tmp/package/dynoxide" "$DIR/dynoxide"
  rm -rf "$tmp"
  say "installed in $DIR"
}

healthy() { "$DIR/dynoxide" healthcheck --port "$PORT" --timeout 1 >/dev/null 2>&1; }

case ${1:-} in
  install) do_install ;;
  start)
    [ -x "$DIR/dynoxide" ] || die "not installed: run install first"
    start_emulator "$DIR/dynoxide" serve --port "$PORT"
    ;;
  stop) stop_emulator ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
