#!/usr/bin/env bash
# each-module.sh COMMAND [ARG...]: runs COMMAND in the directory of each module that holds
# code of ours (the product, bench, e2e), and fails if it failed in one of them.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "scripts/${0##*/}" >&2; exit 2; }
status=0
for module in . bench e2e; do
  (cd "$module" && "$@") || status=1
done
exit "$status"
