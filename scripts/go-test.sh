#!/usr/bin/env bash
# go-test.sh [GO TEST ARG...]: runs go test in the module of the current folder, and notes the times of its tests.
#
# The Makefile sets the variable TEST_TIMES to a folder, which `testtimes slowest` reads. Its CPU times need -exec, so
# nothing comes from the cache of test results.
set -euo pipefail
TEST_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PATH=$TEST_ROOT/bin:$PATH # -exec takes a name without a folder, because a folder may have a space
: "${TEST_TIMES:?names a folder}"
export TEST_ROOT PATH
# The commands that e2e starts are built without the race detector, so the detector would see only the tests themselves.
[ "${PWD##*/}" != e2e ] || for flag; do
  shift
  [ "$flag" = -race ] || set -- "$@" "$flag"
done
exec gotestsum --format standard-quiet --hide-summary skipped \
  --jsonfile-timing-events "$(mktemp "$TEST_TIMES/XXXXXX.json")" -- -exec 'testtimes process' "$@"
