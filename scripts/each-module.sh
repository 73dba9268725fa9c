#!/usr/bin/env bash
# each-module.sh [--at-once] COMMAND [ARG...]: runs COMMAND in the directory of each module of
# the repository (the product, bench, release, e2e, examples). The script fails if COMMAND fails
# in a module.
# --at-once runs e2e at the same time as the other modules, because e2e mostly waits for other
# processes. The output of e2e follows the output of the other modules.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
at_once=
[ "${1:-}" != --at-once ] || { at_once=1; shift; }
[ $# -gt 0 ] || { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "scripts/${0##*/}" >&2; exit 2; }
in_module() { cd "$1" && shift && exec "$@"; }
status=0
if [ -n "$at_once" ]; then
  output=$(mktemp)
  (in_module e2e "$@") >"$output" 2>&1 &
  e2e=$!
  trap 'kill "$e2e" 2>/dev/null; rm -f "$output"' EXIT
fi
for module in . bench release examples/backend examples/embedded examples/producer examples/push examples/recipes examples/site; do
  (in_module "$module" "$@") || status=1
done
if [ -n "$at_once" ]; then
  wait "$e2e" || status=1
  cat "$output"
else
  (in_module e2e "$@") || status=1
fi
exit "$status"
