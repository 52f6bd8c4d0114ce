#!/usr/bin/env bash
# Fuzzes the .nae parser, and parser and engine together (nae-core/fuzz), seeded with the project's models and the small
# ones of nae-core's tests.
#
#   tests/fuzz.sh [SECONDS]     for each of the two; 30 where nothing is said
#
# Needs a nightly Rust; cargo-fuzz is taken from PATH, else installed into the target folder. Ends with an error when an
# input panics, reads or writes out of bounds, or takes more than 20 seconds: nae-core/fuzz/artifacts then has it.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-30}
cargo_fuzz_version=0.13.2
target=${CARGO_TARGET_DIR:-$PWD/target}

if ! cargo +nightly --version >/dev/null 2>&1; then
  echo "skipped: fuzzing needs a nightly Rust (rustup toolchain install nightly)"
  exit 0
fi
cargo_fuzz=$(command -v cargo-fuzz || echo "$target/tools/bin/cargo-fuzz")
export PATH=${cargo_fuzz%/*}:$PATH
[ -x "$cargo_fuzz" ] || cargo install --quiet --locked --root "$target/tools" "cargo-fuzz@$cargo_fuzz_version"

corpus=$target/fuzz-corpus
for name in parse run; do
  mkdir -p "$corpus/$name"
  cp models/*/*.nae nae-core/tests/data/*.nae "$corpus/$name/"
  cargo run --quiet --manifest-path nae-core/fuzz/Cargo.toml --target-dir "$target/fuzz" --bin seeds -- "$corpus/$name"
done
for name in parse run; do
  log=$target/fuzz-$name.log
  cargo +nightly fuzz run --fuzz-dir nae-core/fuzz --target-dir "$target/fuzz" "$name" "$corpus/$name" -- \
    -max_total_time="$seconds" -timeout=20 -print_final_stats=1 -verbosity=0 >"$log" 2>&1 ||
    { tail -n 60 "$log"; exit 1; }
  echo "$name: $(awk '/number_of_executed_units/ { print $2 }' "$log") inputs in $seconds s, none that fails"
done
