#!/usr/bin/env bash
# python-tools.sh: installs and runs sets of Python programs for the tests, each set in a separate environment.
#
#   python-tools.sh install SET              install the versions in SET.txt (idempotent)
#   python-tools.sh run SET PROGRAM [ARG...] run a program of the set
#
# The sets:
#   schemathesis   st, which tests an API against its OpenAPI document
#   moto           moto, an emulator of AWS: moto.sh starts its server
#   deploy-lint    cfn-lint, for templates of CloudFormation, and kubernetes-validate, for manifests
#
# Settings (environment):
#   PT_DIR      the folder of the installations (${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e)
#   PT_PYTHON   a CPython of at least 3.11      (the first such CPython that is found)
# The script needs a CPython of at least 3.11 with venv. As root it can install CPython by apt-get, if the Debian
# release has that version.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e
SET=${2:-}
DIR=${PT_DIR:-$CACHE}/$SET
WANT=$HERE/$SET.txt

say() { printf '%s: %s\n' "$SET" "$*" >&2; }
die() { say "$*"; exit 1; }

installed() { cmp -s "$WANT" "$DIR/installed.txt"; }

find_python() { # prints a CPython that can make an environment with pip
  local c
  for c in ${PT_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[1-9].*/bin/python3}; do
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
  exec 8>"$CACHE/install.lock" # with-emulators.sh has the same lock: one apt-get at a time
  flock 8
  if installed; then
    say "already installed in $DIR"
    return 0
  fi
  if ! python=$(find_python); then
    [ -z "${PT_PYTHON:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
      die "please install a CPython of at least 3.11 with venv, or set PT_PYTHON"
    say "apt-get install python3-venv"
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install python3-venv; } \
      >"$CACHE/apt.log" 2>&1 || { tail -20 "$CACHE/apt.log" >&2; die "apt-get install failed"; }
    python=$(find_python) || die "python3 of this release is older than 3.11: install a newer one and set PT_PYTHON"
  fi
  say "pip install -r $SET.txt"
  rm -rf "$DIR"
  "$python" -m venv "$DIR"
  PIP_DISABLE_PIP_VERSION_CHECK=1 "$DIR/bin/pip" install --quiet --no-deps --only-binary :all: --require-hashes -r "$WANT" >"$CACHE/pip.log" 2>&1 ||
    { tail -20 "$CACHE/pip.log" >&2; die "pip install failed"; }
  "$DIR/bin/pip" check >"$CACHE/pip.log" 2>&1 || { tail -20 "$CACHE/pip.log" >&2; die "$SET.txt does not fit together"; }
  cp "$WANT" "$DIR/installed.txt"
  say "installed in $DIR"
}

[ -n "$SET" ] && [ -f "$WANT" ] || set --
case ${1:-} in
  install) do_install ;;
  run)
    installed || die "not installed: run scripts/python-tools.sh install $SET first (make test does)"
    exec "$DIR/bin/${3:?a program}" "${@:4}"
    ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
