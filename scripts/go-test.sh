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
# A run with the detector follows a run without it (make test-all), so e2e then runs only its files with the tag slow.
[ "${PWD##*/}" != e2e ] || for flag; do
  shift
  if [ "$flag" = -race ]; then
    names=$(grep -l '^//go:build .*slow' ./*_test.go | xargs sed -n 's/^func \(Test[A-Za-z0-9_]*\)(.*/\1/p' | paste -sd '|')
    set -- "$@" -run "^(${names:?no test of e2e has the tag slow})\$"
  else
    set -- "$@" "$flag"
  fi
done
exec gotestsum --format standard-quiet --hide-summary skipped \
  --jsonfile-timing-events "$(mktemp "$TEST_TIMES/XXXXXX.json")" -- -exec 'testtimes process' "$@"
