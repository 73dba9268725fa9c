#!/usr/bin/env bash
# helm.sh: installs and runs Helm for the tests of the chart.
#
#   helm.sh install        build Helm with Go (idempotent)
#   helm.sh run [ARG...]   run Helm, with no settings except its arguments. helm template needs --kube-version, because this
#                          build takes itself for one of Kubernetes 1.20
#
# The build uses neither the race detector nor C. It is below ${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e.
set -euo pipefail

VERSION=v3.19.0
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/fanfare-e2e
DIR=$CACHE/helm-$VERSION

say() { printf 'helm: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

do_install() {
  mkdir -p "$CACHE"
  exec 7>"$CACHE/helm.lock"
  flock 7
  [ ! -x "$DIR/helm" ] || { say "already installed in $DIR"; return 0; }
  say "go install helm $VERSION"
  rm -rf "$DIR.new"
  GOBIN=$DIR.new GOFLAGS='' GOWORK=off CGO_ENABLED=0 go install -trimpath -ldflags='-s -w' "helm.sh/helm/v3/cmd/helm@$VERSION" \
    >"$CACHE/helm.log" 2>&1 || { tail -20 "$CACHE/helm.log" >&2; die "go install failed"; }
  rm -rf "$DIR"
  mv "$DIR.new" "$DIR"
}

case ${1:-} in
  install) do_install ;;
  run)
    [ -x "$DIR/helm" ] || die "not installed: run scripts/helm.sh install first (make test does)"
    shift
    exec env -i PATH="$PATH" HOME="$DIR" "$DIR/helm" "$@"
    ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
