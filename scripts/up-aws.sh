#!/usr/bin/env bash
# up-aws.sh: runs Fanfare as in production on this machine, without Docker: LocalStack (SQS, DynamoDB), api, fanout
# and likeagg, and a small demo of a real graph. Ctrl-C stops all of it. make up-aws builds the binaries and runs the
# script.
#
# The script installs LocalStack below ${XDG_CACHE_HOME:-$HOME/.cache} (localstack-host.sh lists the necessary tools).
# LocalStack is empty at each start. If AWS_ENDPOINT_URL is set, the script uses that endpoint instead. The script
# keeps the settings FANFARE_* of the environment. FANFARE_ADMIN_ADDRS has the admin addresses of the three daemons,
# by default 127.0.0.1:9090 to 9092. BIN is the folder of the binaries.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BIN=${BIN:-$HERE/../bin}
read -r -a admins <<<"${FANFARE_ADMIN_ADDRS:-127.0.0.1:9090 127.0.0.1:9091 127.0.0.1:9092}"
unset FANFARE_ADMIN_ADDRS

say() { printf 'up-aws: %s\n' "$*"; }

run=$(mktemp -d) localstack='' child='' daemons=()
finish() {
  trap '' INT TERM
  for pid in $child "${daemons[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  [ -z "$localstack" ] || LSH_RUN=$run "$HERE/localstack-host.sh" stop
  rm -rf "$run"
  say stopped
}
trap finish EXIT
trap 'exit 0' INT TERM

foreground() { # COMMAND...: runs it in the background and waits, so that a signal ends the wait
  "$@" &
  child=$!
  wait "$child"
  child=''
}

if [ -z "${AWS_ENDPOINT_URL:-}" ]; then
  foreground "$HERE/localstack-host.sh" install
  export LSH_PORT=${LSH_PORT:-4566}
  localstack=yes
  LSH_RUN=$run foreground "$HERE/localstack-host.sh" start
  unset AWS_PROFILE AWS_SESSION_TOKEN AWS_CA_BUNDLE
  export AWS_ENDPOINT_URL=http://127.0.0.1:$LSH_PORT AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1
  export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_EC2_METADATA_DISABLED=true
fi
export FANFARE_ENGINE=aws FANFARE_AUTH=dev FANFARE_DEV_AUTH_ON_AWS=allow FANFARE_CONSOLE=on
export FANFARE_HTTP_ADDR=${FANFARE_HTTP_ADDR:-127.0.0.1:8080} FANFARE_LOG_LEVEL=${FANFARE_LOG_LEVEL:-warn} FANFARE_DRAIN=${FANFARE_DRAIN:-0s}
export FANFARE_DEV_SECRET=${FANFARE_DEV_SECRET:-$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}

foreground "$BIN/fanfare" table create
foreground "$BIN/fanfare" queues create
for daemon in api fanout likeagg; do
  FANFARE_ADMIN_ADDR=${admins[${#daemons[@]}]} "$BIN/$daemon" &
  daemons+=($!)
done
for admin in "${admins[@]}"; do
  for try in $(seq 120); do # each attempt takes five seconds or less
    "$BIN/fanfare" health --url "http://$admin/readyz" --timeout 5s >/dev/null 2>&1 && break
    [ "$try" != 120 ] || { say "no process is ready at $admin" >&2; exit 1; }
    foreground sleep 0.5
  done
done
say "the demo loads: 8 people of a real graph who follow, post and like"
foreground "$BIN/fanfare" replay --graph "$HERE/../testdata/graphs/socfb-Reed98.edges" --max-users 8 --posts 8 --likes 20 \
  --concurrency 4 --target "http://$FANFARE_HTTP_ADDR" --admin "$(IFS=,; echo "${admins[*]}")" >"$run/replay" 2>&1 ||
  { cat "$run/replay" >&2; exit 1; }
say "ready: http://$FANFARE_HTTP_ADDR is the console. Ctrl-C stops all."
say "for bin/fanfare and examples/producer-python in another terminal:"
export FANFARE_ADMIN_ADDR=${admins[0]} AWS_REGION=${AWS_REGION:-us-east-1}
export AWS_DEFAULT_REGION=$AWS_REGION # boto3 reads AWS_DEFAULT_REGION
# shellcheck disable=SC2046 # names have no spaces
say "  export$(for name in $(compgen -e FANFARE_ | grep -v LOG_LEVEL) AWS_ENDPOINT_URL AWS_REGION AWS_DEFAULT_REGION; do printf ' %s=%q' "$name" "${!name}"; done) AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test"
wait -n "${daemons[@]}" || true
say "a daemon ended" >&2
exit 1
