#!/usr/bin/env bash
# with-times.sh COMMAND [ARG...]: runs COMMAND, and prints the slowest tests that scripts/go-test.sh has noted in it.
# The script returns the exit status of COMMAND: no run fails because it is slow.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
TEST_TIMES=$(mktemp -d)
trap 'rm -rf "$TEST_TIMES"' EXIT
export TEST_TIMES
status=0
"$@" || status=$?
"$(dirname "${BASH_SOURCE[0]}")/../bin/testtimes" slowest
exit "$status"
