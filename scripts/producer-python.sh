#!/usr/bin/env bash
# producer-python.sh: installs and runs examples/producer-python.
#
#   producer-python.sh install      install boto3 in a separate environment (idempotent)
#   producer-python.sh run [ARG...] run the example
#
# The environment is ${PP_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e/producer-python}. The script needs Python
# 3.9 with venv; as root on Debian it installs venv.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e
DIR=${PP_DIR:-$CACHE/producer-python}
EXAMPLE=$HERE/../examples/producer-python

die() { printf 'producer-python: %s\n' "$*" >&2; exit 1; }

installed() { [ -x "$DIR/bin/python" ] && cmp -s "$EXAMPLE/requirements.txt" "$DIR/installed.txt"; }

do_install() {
  mkdir -p "$CACHE"
  python3 -c 'import venv, ensurepip' 2>/dev/null || "$HERE/need.sh" :python3-venv
  exec 7>"$CACHE/producer-python.lock"
  flock 7
  ! installed || return 0
  rm -rf "$DIR"
  python3 -m venv "$DIR"
  PIP_DISABLE_PIP_VERSION_CHECK=1 "$DIR/bin/pip" install --quiet --no-deps --only-binary :all: --require-hashes -r "$EXAMPLE/requirements.txt" >&2
  "$DIR/bin/pip" check >&2 || die "requirements.txt does not fit together"
  cp "$EXAMPLE/requirements.txt" "$DIR/installed.txt"
}

case ${1:-} in
  install) do_install ;;
  run)
    shift
    installed || die "not installed: run scripts/producer-python.sh install first (make test does)"
    exec "$DIR/bin/python" "$EXAMPLE/producer.py" "$@"
    ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
