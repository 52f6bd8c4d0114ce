#!/usr/bin/env bash
# Long trainings: works through models/results/queue.toml on one core, at the lowest priority, one model after the other.
#
#   tests/lab.sh start     in the background; builds the program first, of the sources as they are
#   tests/lab.sh status    how far it is
#   tests/lab.sh stop      ends it within seconds, and writes what it found into models/results/lab
#   tests/lab.sh collect   writes what it found, and leaves it running
#   tests/lab.sh check     whether the queue can be read
#
# Runs lie in LAB (target/lab); the data sets in NAE_DATA. Stop it before anything is timed.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
export LAB=${LAB:-$target/lab}
mkdir -p "$LAB"
pid=$LAB/pid

# The file stays when the queue has ended, and another process may have the number by now.
running() { [ -f "$pid" ] && grep -qaF tests/lab.py "/proc/$(cat "$pid")/cmdline" 2>/dev/null; }

collect() { python3 tests/lab.py collect; }

case ${1:-} in
  start)
    running && { echo "it runs already: $(cat "$pid")" >&2; exit 1; }
    [ -n "${NAE_DATA:-}" ] || { echo "set NAE_DATA to the folder that has the data sets" >&2; exit 1; }
    python3 tests/lab.py check
    cargo build --release --locked -q -p nae-train-cli
    # A copy, so that building does not change the program under a run.
    cp "$target/release/nae-train" "$LAB/nae-train"
    core=$(($(nproc) - 1))
    # A session of its own is a group of its own to the scheduler, which shares the processor out by group: `nice` alone
    # would leave it half of a core that is wanted elsewhere. The group is set from within: before `setsid` it is the caller's.
    setsid nohup bash -c 'echo 19 2>/dev/null >/proc/self/autogroup || true; exec nice -n 19 taskset -c "$0" python3 tests/lab.py work' \
      "$core" >>"$LAB/log" 2>&1 &
    echo $! >"$pid"
    sleep 1
    running || { tail -n 1 "$LAB/log" >&2; exit 1; }
    echo "started on core $core; log: $LAB/log"
    ;;
  stop)
    if running; then
      kill -INT -- "-$(cat "$pid")" 2>/dev/null || kill -INT "$(cat "$pid")"
      for _ in $(seq 100); do
        running || break
        sleep 0.1
      done
      running && { echo "it does not stop: $(cat "$pid")" >&2; exit 1; }
    fi
    rm -f "$pid"
    collect
    ;;
  collect) collect ;;
  check) python3 tests/lab.py check ;;
  status)
    running && echo "running" || echo "not running"
    python3 tests/lab.py status
    ;;
  -h | --help) sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//' ;;
  *) sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
