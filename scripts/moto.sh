#!/usr/bin/env bash
# moto.sh: moto, a second emulator of SQS and DynamoDB, for end-to-end tests, served one call at a time by moto-server.py.
#
#   moto.sh install   install the versions in moto.txt, by python-tools.sh (idempotent)
#   moto.sh start     start in the background, wait until it answers, print the endpoint
#   moto.sh stop      stop the process of `start`
#
# Settings (environment):
#   MOTO_PORT  port on 127.0.0.1                     (5000)
#   MOTO_RUN   directory for the pid and the log of this instance
#              (${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e/moto.run)
# State is in memory: each start is empty. Needs what python-tools.sh needs, and curl.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
RUN=${MOTO_RUN:-${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e/moto.run}
PORT=${MOTO_PORT:-5000}
ENDPOINT=http://127.0.0.1:$PORT

say() { printf 'moto: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

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

healthy() { curl -fsS -o /dev/null --max-time 5 "$ENDPOINT/moto-api/data.json" 2>/dev/null; }

do_start() {
  local pid i
  if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then
    die "something else listens on 127.0.0.1:$PORT"
  fi
  mkdir -p "$RUN"
  setsid "$HERE/python-tools.sh" run moto python "$HERE/moto-server.py" "$PORT" >"$RUN/log" 2>&1 </dev/null &
  pid=$!
  printf '%s %s\n' "$pid" "$(start_time "$pid")" >"$RUN/pid"
  for ((i = 0; i < 300; i++)); do
    if healthy && running_pid >/dev/null; then
      say "ready, pid $pid, log $RUN/log"
      printf '%s\n' "$ENDPOINT"
      return 0
    fi
    start_time "$pid" >/dev/null || break
    sleep 0.2
  done
  tail -20 "$RUN/log" >&2
  do_stop
  die "it did not become healthy; log: $RUN/log"
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
  install) "$HERE/python-tools.sh" install moto ;;
  start) do_start ;;
  stop) do_stop ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
