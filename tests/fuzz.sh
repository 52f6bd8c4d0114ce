#!/usr/bin/env bash
# Fuzzes what reads bytes of unknown origin: on a device the .nae parser, and parser and engine together (nae-core/fuzz);
# on a host ONNX with the vector engine, TFLite, tables, arrays and JPEG streams (tests/fuzz). Each begins with small files
# of its kind, and goes on from what it has found before, in the target folder.
#
#   tests/fuzz.sh [SECONDS] [TARGET…]     SECONDS for each, 30 where nothing is said; TARGETs: parse run onnx tflite table
#                                         npy jpeg, all of them where none is named
#
# Needs a nightly Rust; cargo-fuzz is taken from PATH, else installed into the target folder. Ends with an error when an
# input panics, reads or writes out of bounds, or takes more than 20 seconds: `artifacts` beside the targets then has it.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-30}
shift || true
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

# seed CRATE TARGET ARGUMENTS…: small files of the kind that the target reads
seed() {
  mkdir -p "$corpus/$2"
  cargo run --quiet --manifest-path "$1/Cargo.toml" --target-dir "$target/fuzz" --bin seeds -- "${@:3}" "$corpus/$2"
}

# fuzz CRATE TARGET ARGUMENTS…: the target, with further arguments of libFuzzer's
fuzz() {
  local log=$target/fuzz-$2.log
  cargo +nightly fuzz run --fuzz-dir "$1" --target-dir "$target/fuzz" "$2" "$corpus/$2" -- \
    -max_total_time="$seconds" -timeout=20 -print_final_stats=1 -verbosity=0 "${@:3}" >"$log" 2>&1 ||
    { tail -n 60 "$log"; exit 1; }
  echo "$2: $(awk '/number_of_executed_units/ { print $2 }' "$log") inputs in $seconds s, none that fails"
}

[ $# -gt 0 ] || set -- parse run onnx tflite table npy jpeg
for name; do
  case $name in
    parse | run)
      seed nae-core/fuzz "$name"
      cp models/*/*.nae nae-core/tests/data/*.nae "$corpus/$name/"
      fuzz nae-core/fuzz "$name"
      ;;
    onnx | tflite | table | npy | jpeg)
      seed tests/fuzz "$name" "$name"
      [ "$name" != tflite ] || cp tests/vectors/tflite/*.tflite "$corpus/$name/"
      fuzz tests/fuzz "$name" -max_len=16384
      ;;
    *) echo "no target $name: parse run onnx tflite table npy jpeg" >&2; exit 2 ;;
  esac
done
