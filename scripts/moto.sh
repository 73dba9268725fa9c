#!/usr/bin/env bash
# moto.sh: runs moto, a second emulator of S3, for end-to-end tests. moto-server.py serves one call at a time.
#
#   moto.sh install   install the versions in moto.txt, by python-tools.sh (idempotent)
#   moto.sh start     start in the background, wait until moto answers, print the endpoint
#   moto.sh stop      stop the process of `start`
#
# Settings (environment):
#   MOTO_PORT  port on 127.0.0.1                     (5000)
#   MOTO_RUN   directory for the pid and the log of this instance
#              (${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e/moto.run)
# The state is in memory: each start is empty. The script needs curl, and the programs that python-tools.sh needs.
set -euo pipefail

NAME=moto
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
RUN=${MOTO_RUN:-${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e/moto.run}
PORT=${MOTO_PORT:-5000}
ENDPOINT=http://127.0.0.1:$PORT
# shellcheck source=scripts/emulator.sh
source "$HERE/emulator.sh"

healthy() { curl -fsS -o /dev/null --max-time 5 "$ENDPOINT/moto-api/data.json" 2>/dev/null; }

case ${1:-} in
  install) "$HERE/python-tools.sh" install moto ;;
  start) start_emulator "$HERE/python-tools.sh" run moto python "$HERE/moto-server.py" "$PORT" ;;
  stop) stop_emulator ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
