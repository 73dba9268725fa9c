#!/usr/bin/env bash
# deploy-lint.sh: installs and runs cfn-lint, for templates of CloudFormation, and kubernetes-validate, for manifests.
#
#   deploy-lint.sh install           install the versions in deploy-lint.txt (idempotent)
#   deploy-lint.sh run TOOL [ARG...] one of cfn-lint and kubernetes-validate
#
# Settings (environment):
#   DL_DIR      the installation              (${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e/deploy-lint)
#   DL_PYTHON   a CPython of at least 3.11    (the first one found)
# Needs a CPython of at least 3.11 with venv. As root it can install one by apt-get, if the release has it.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e
DIR=${DL_DIR:-$CACHE/deploy-lint}
WANT=$HERE/deploy-lint.txt

say() { printf 'deploy-lint: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

installed() { [ -x "$DIR/bin/cfn-lint" ] && cmp -s "$WANT" "$DIR/installed.txt"; }

find_python() { # one that can make an environment with pip
  local c
  for c in ${DL_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[1-9].*/bin/python3}; do
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
    [ -z "${DL_PYTHON:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
      die "please install a CPython of at least 3.11 with venv, or set DL_PYTHON"
    say "apt-get install python3-venv"
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install python3-venv; } \
      >"$CACHE/apt.log" 2>&1 || { tail -20 "$CACHE/apt.log" >&2; die "apt-get install failed"; }
    python=$(find_python) || die "python3 of this release is older than 3.11: install a newer one and set DL_PYTHON"
  fi
  say "pip install -r deploy-lint.txt"
  rm -rf "$DIR"
  "$python" -m venv "$DIR"
  PIP_DISABLE_PIP_VERSION_CHECK=1 "$DIR/bin/pip" install --quiet --no-deps --only-binary :all: -r "$WANT" >"$CACHE/pip.log" 2>&1 ||
    { tail -20 "$CACHE/pip.log" >&2; die "pip install failed"; }
  "$DIR/bin/pip" check >"$CACHE/pip.log" 2>&1 || { tail -20 "$CACHE/pip.log" >&2; die "deploy-lint.txt does not fit together"; }
  cp "$WANT" "$DIR/installed.txt"
  say "installed in $DIR"
}

case ${1:-} in
  install) do_install ;;
  run)
    installed || die "not installed: run scripts/deploy-lint.sh install first (make test does)"
    exec "$DIR/bin/${2:?a tool}" "${@:3}"
    ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
