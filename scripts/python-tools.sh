#!/usr/bin/env bash
# schemathesis.sh: installs and runs Schemathesis, which tests an API against its OpenAPI document.
#
#   schemathesis.sh install      install the versions in schemathesis.txt (idempotent)
#   schemathesis.sh run [ARG...] st run ARG...
#
# Settings (environment):
#   ST_DIR      the installation              (${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e/schemathesis)
#   ST_PYTHON   a CPython of at least 3.11    (the first one found)
# Needs a CPython of at least 3.11 with venv. As root it can install one by apt-get, if the release has it.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e
DIR=${ST_DIR:-$CACHE/schemathesis}
WANT=$HERE/schemathesis.txt

say() { printf 'schemathesis: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

installed() { [ -x "$DIR/bin/st" ] && cmp -s "$WANT" "$DIR/installed.txt"; }

find_python() { # one that can make an environment with pip
  local c
  for c in ${ST_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[1-9].*/bin/python3}; do
    if "$c" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      printf '%s\n' "$c"
      return 0
    fi
  done
  return 1
}

do_install() {
  local python
  mkdir -p "$CACHE"
  exec 8>"$CACHE/install.lock" # shared with with-emulators.sh: one apt-get at a time
  flock 8
  if installed; then
    say "already installed in $DIR"
    return 0
  fi
  if ! python=$(find_python); then
    [ -z "${ST_PYTHON:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
      die "please install a CPython of at least 3.11 with venv, or set ST_PYTHON"
    say "apt-get install python3-venv"
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install python3-venv; } \
      >"$CACHE/apt.log" 2>&1 || { tail -20 "$CACHE/apt.log" >&2; die "apt-get install failed"; }
    python=$(find_python) || die "python3 of this release is older than 3.11: install a newer one and set ST_PYTHON"
  fi
  say "pip install -r schemathesis.txt"
  rm -rf "$DIR"
  "$python" -m venv "$DIR"
  PIP_DISABLE_PIP_VERSION_CHECK=1 "$DIR/bin/pip" install --quiet --no-deps --only-binary :all: -r "$WANT" >"$CACHE/pip.log" 2>&1 ||
    { tail -20 "$CACHE/pip.log" >&2; die "pip install failed"; }
  "$DIR/bin/pip" check >"$CACHE/pip.log" 2>&1 || { tail -20 "$CACHE/pip.log" >&2; die "schemathesis.txt does not fit together"; }
  cp "$WANT" "$DIR/installed.txt"
  say "installed in $DIR"
}

case ${1:-} in
  install) do_install ;;
  run)
    installed || die "not installed: run scripts/schemathesis.sh install first (make test does)"
    exec "$DIR/bin/st" "$@"
    ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
