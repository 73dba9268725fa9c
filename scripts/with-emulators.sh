#!/usr/bin/env bash
# with-emulators.sh COMMAND [ARG...]: runs COMMAND with emulators of AWS, and returns the exit status of COMMAND.
# with-emulators.sh --install: only installs the emulators.
#
# The script starts one LocalStack (SQS, DynamoDB, S3), one Dynoxide and one moto (S3), empty and on free ports.
# COMMAND gets
#   AWS_ENDPOINT_URL   LocalStack
#   E2E_DYNOXIDE_URL   Dynoxide
#   E2E_MOTO_URL       moto
# and a region and test credentials. The emulators stop when COMMAND ends, or when the script gets a signal. If
# AWS_ENDPOINT_URL is already set, as with docker compose, COMMAND gets that endpoint, and LocalStack is not started.
#
# The script installs the emulators once, below ${XDG_CACHE_HOME:-$HOME/.cache}. As root it also installs a C
# compiler for go test -race, Java, npm and other tools by apt-get. Several of these scripts may run at the same time.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e

say() { printf 'with-emulators: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

[ $# -gt 0 ] || { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }

# --- packages ---
have_java() { # 17 or newer, found as in localstack-host.sh
  local c v
  for c in ${LSH_JAVA:+"$LSH_JAVA"} ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java /usr/lib/jvm/*/bin/java; do
    v=$("$c" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1) || continue
    [ "${v:-0}" -lt 17 ] || return 0
  done
  return 1
}

have_python() { # a CPython 3.13 that can make a venv, found as in localstack-host.sh
  local c
  case ${LSH_PYTHON:-} in
    '') ;;
    debootstrap) return 1 ;;
    *) return 0 ;; # localstack-host.sh reports a Python that is not CPython 3.13
  esac
  for c in python3.13 python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.13.*/bin/python3; do
    "$c" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 13))' >/dev/null 2>&1 && return 0
  done
  return 1
}

packages() { # installs by need.sh, which takes the install lock itself
  local needs=(cc curl:curl npm:npm flock:util-linux redis-server:redis-server pg_ctlcluster:postgresql) # bench needs the last two
  if [ -z "${AWS_ENDPOINT_URL:-}" ]; then
    have_java || needs+=(:default-jre-headless)
    # Only root can use debootstrap; localstack-host.sh names the packages for other users.
    have_python || [ "$(id -u)" != 0 ] || needs+=(debootstrap:debootstrap)
  fi
  "$HERE/need.sh" "${needs[@]}"
}

install() {
  [ -n "${AWS_ENDPOINT_URL:-}" ] || "$HERE/localstack-host.sh" install
  "$HERE/dynoxide.sh" install
}

# --- emulators ---
free_port() { # a port without a listener, below the kernel's ports for outgoing connections
  local p
  while :; do
    p=$((10000 + RANDOM % 20000))
    (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || break
  done
  printf '%s\n' "$p"
}

start() { # SCRIPT PORT_VARIABLE: starts SCRIPT on a free port, or on another port if a process has taken the first one
  local try
  for try in 1 2 3; do
    env "$2=$(free_port)" "$HERE/$1" start && return 0
    say "$1: try $try failed"
  done
  return 1
}

stop_run() { # DIR: stops the emulators of a run and removes the run's directory
  [ ! -d "$1/localstack" ] || LSH_RUN=$1/localstack "$HERE/localstack-host.sh" stop
  [ ! -d "$1/moto" ] || MOTO_RUN=$1/moto "$HERE/moto.sh" stop
  [ ! -d "$1/dynoxide" ] || DX_RUN=$1/dynoxide "$HERE/dynoxide.sh" stop
  rm -rf "$1"
}

sweep() { # stops the runs of killed scripts: no process holds their lock
  local d
  for d in "$CACHE"/run.*; do
    [ -d "$d" ] || continue
    (
      exec 7>"$d/lock"
      flock -n 7 && stop_run "$d"
    ) || true # the run is in use
  done
}

run='' child='' status=''
finish() { # [STATUS]
  status=${1:-${status:-1}}
  trap '' HUP INT TERM
  if [ -n "$child" ]; then # the process group also has the children of go test
    kill -TERM -- "-$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
  fi
  [ -z "$run" ] || stop_run "$run" || true
  trap - EXIT
  exit "$status"
}
trap 'finish 129' HUP
trap 'finish 130' INT
trap 'finish 143' TERM
trap 'finish' EXIT

packages
"$HERE/moto.sh" install # moto.sh takes the install lock itself
mkdir -p "$CACHE"
exec 8>"$CACHE/install.lock"
flock 8
install
[ "$1" != --install ] || finish 0
sweep
run=$(mktemp -d "$CACHE/run.XXXXXX")
exec 7>"$run/lock"
flock 7
exec 8>&-

if [ -z "${AWS_ENDPOINT_URL:-}" ]; then
  mkdir "$run/localstack"
  # LocalStack starts a service beyond its three at the first call: one test uses CloudFormation.
  AWS_ENDPOINT_URL=$(LSH_RUN=$run/localstack LSH_SERVICES=sqs,dynamodb,s3 STRICT_SERVICE_LOADING=0 start localstack-host.sh LSH_PORT 7>&-)
  unset AWS_PROFILE AWS_SESSION_TOKEN AWS_CA_BUNDLE
  AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1
  AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null
  export AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE
fi
mkdir "$run/dynoxide"
E2E_DYNOXIDE_URL=$(DX_RUN=$run/dynoxide start dynoxide.sh DX_PORT 7>&-)
mkdir "$run/moto"
E2E_MOTO_URL=$(MOTO_RUN=$run/moto start moto.sh MOTO_PORT 7>&-)
export AWS_ENDPOINT_URL E2E_DYNOXIDE_URL E2E_MOTO_URL
export AWS_REGION="${AWS_REGION:-us-east-1}" AWS_ACCESS_KEY_ID="${AWS_ACCESS_KEY_ID:-test}"
export AWS_SECRET_ACCESS_KEY="${AWS_SECRET_ACCESS_KEY:-test}" AWS_EC2_METADATA_DISABLED=true

set -m # COMMAND runs in a new process group, so that a signal reaches its children
"$@" </dev/null 7>&- &
child=$!
set +m
status=0
wait "$child" || status=$?
child=''
finish "$status"
