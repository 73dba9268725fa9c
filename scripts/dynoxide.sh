#!/usr/bin/env bash
# dynoxide.sh: Dynoxide 1.2.1, a second engine that speaks DynamoDB's protocol, for end-to-end tests.
#
#   dynoxide.sh install   install (idempotent)
#   dynoxide.sh start     start in the background, wait until it answers, print the endpoint
#   dynoxide.sh stop      stop the process of `start`
#
# Settings (environment):
#   DX_PORT   port on 127.0.0.1                     (8000)
#   DX_DIR    the installation                      (${XDG_CACHE_HOME:-$HOME/.cache}/dynoxide/1.2.1)
#   DX_RUN    directory for the pid and the log of this instance (DX_DIR/run)
# State is in memory: each start is empty. Needs Linux on x86-64, npm and curl.
set -euo pipefail

VERSION=1.2.1
NPM=@dynoxide/linux-x64@$VERSION
SHA512=b011ea97127d00d90b96e1646117dde6bf18d00a457b0e0584eae5860440803e17cc4a053ae904a359ee053435fa34eda1fab09f83564369344e7e663538e052
DIR=${DX_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/dynoxide/$VERSION}
RUN=${DX_RUN:-$DIR/run}
PORT=${DX_PORT:-8000}
ENDPOINT=http://127.0.0.1:$PORT

say() { printf 'dynoxide: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

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

# Field 22 of /proc/PID/stat distinguishes a process from a later one with the same id. A zombie counts as ended.
start_time() {
  local stat
  stat=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) || return 1
  case $stat in '' | [ZX]*) return 1 ;; esac
  cut -d' ' -f20 <<<"$stat"
}

running_pid() { # the process of `start`, if it still runs
  local pid started
  read -r pid started 2>/dev/null <"$RUN/pid" || return 1
  [ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ] && printf '%s\n' "$pid"
}

healthy() { "$DIR/dynoxide" healthcheck --port "$PORT" --timeout 1 >/dev/null 2>&1; }

do_start() {
  local pid i
  [ -x "$DIR/dynoxide" ] || die "not installed: run install first"
  if pid=$(running_pid); then
    healthy || die "pid $pid is running, but does not answer at $ENDPOINT: stop it first"
    say "already running (pid $pid)"
    printf '%s\n' "$ENDPOINT"
    return 0
  fi
  if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then
    die "something else listens on 127.0.0.1:$PORT"
  fi
  mkdir -p "$RUN"
  setsid "$DIR/dynoxide" serve --port "$PORT" >"$RUN/log" 2>&1 </dev/null 9>&- &
  pid=$!
  printf '%s %s\n' "$pid" "$(start_time "$pid")" >"$RUN/pid"
  for ((i = 0; i < 100; i++)); do
    if healthy && running_pid >/dev/null; then
      say "Dynoxide $VERSION ready, pid $pid, log $RUN/log"
      printf '%s\n' "$ENDPOINT"
      return 0
    fi
    start_time "$pid" >/dev/null || break
    sleep 0.1
  done
  tail -20 "$RUN/log" >&2
  do_stop
  die "Dynoxide did not become healthy; log: $RUN/log"
}

do_stop() {
  local pid i
  if ! pid=$(running_pid); then
    say "not running"
    return 0
  fi
  kill -TERM "$pid" 2>/dev/null || true
  for ((i = 0; i < 50; i++)); do
    start_time "$pid" >/dev/null || break
    sleep 0.1
  done
  if start_time "$pid" >/dev/null; then kill -KILL "$pid" 2>/dev/null || true; fi
  rm -f "$RUN/pid"
  say "stopped"
}

case ${1:-} in
  install) do_install ;;
  start) do_start ;;
  stop) do_stop ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
