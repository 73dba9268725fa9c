# emulator.sh has the common functions of the scripts that run an emulator in the background. Such a
# script sources this file, sets NAME, RUN (the directory for pid and log), PORT and ENDPOINT, and defines
# `healthy`.

say() { printf '%s: %s\n' "$NAME" "$*" >&2; }
die() { say "$*"; exit 1; }

# Field 22 of /proc/PID/stat distinguishes a process from a later process with the same id. A zombie
# counts as ended.
start_time() {
  local stat
  stat=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) || return 1
  case $stat in '' | [ZX]*) return 1 ;; esac
  cut -d' ' -f20 <<<"$stat"
}

running_pid() { # the process of start_emulator, if the process still runs
  local pid started
  read -r pid started 2>/dev/null <"$RUN/pid" || return 1
  [ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ] && printf '%s\n' "$pid"
}

start_emulator() { # COMMAND...: runs it in the background, waits until it is healthy, prints the endpoint
  local pid i
  if pid=$(running_pid); then
    healthy || die "pid $pid is running, but does not answer at $ENDPOINT: stop it first"
    say "already running (pid $pid)"
    printf '%s\n' "$ENDPOINT"
    return 0
  fi
  if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then
    die "something else listens on 127.0.0.1:$PORT"
  fi
  mkdir -p "$RUN"
  setsid "$@" >"$RUN/log" 2>&1 </dev/null 9>&- &
  pid=$!
  printf '%s %s\n' "$pid" "$(start_time "$pid")" >"$RUN/pid"
  for ((i = 0; i < 600; i++)); do
    if healthy && running_pid >/dev/null; then
      say "ready, pid $pid, log $RUN/log"
      printf '%s\n' "$ENDPOINT"
      return 0
    fi
    start_time "$pid" >/dev/null || break
    sleep 0.1
  done
  tail -20 "$RUN/log" >&2
  stop_emulator
  die "it did not become healthy; log: $RUN/log"
}

stop_emulator() {
  local pid i
  if ! pid=$(running_pid); then
    say "not running"
    return 0
  fi
  kill -TERM "$pid" 2>/dev/null || true
  for ((i = 0; i < 50; i++)); do
    start_time "$pid" >/dev/null || break
    sleep 0.1
  done
  if start_time "$pid" >/dev/null; then kill -KILL "$pid" 2>/dev/null || true; fi
  rm -f "$RUN/pid"
  say "stopped"
}
