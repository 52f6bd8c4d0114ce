#!/usr/bin/env bash
# Fuzzes what reads bytes of unknown origin: on a device the .nae parser, and parser and engine together (nae-core/fuzz);
# on a host ONNX with the vector engine, TFLite, tables, arrays, images, and streams of JPEG images and of a camera's parts
# (tests/fuzz), and what clients of the camera service send for inference (crates/nae-serve/fuzz). Each begins with small
# files of its kind, and goes on from what it has found before, in the target folder.
#
#   tests/fuzz.sh [SECONDS] [TARGET…]     SECONDS for each, 30 where nothing is said; TARGETs: parse run onnx tflite table
#                                         npy image jpeg mjpeg inference; all but the last, which takes six minutes to
#                                         build, where none is named; two run at a time
#
# Needs a nightly Rust; cargo-fuzz is taken from PATH, else installed into the target folder. Ends with an error when an
# input panics, reads or writes out of bounds, or takes more than 20 seconds: `artifacts` beside the targets then has it.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,12p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;; esac
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
[ -x "$cargo_fuzz" ] || cargo install --quiet --debug --locked --root "$target/tools" "cargo-fuzz@$cargo_fuzz_version"

corpus=$target/fuzz-corpus
triple=$(rustc +nightly -vV | sed -n 's/^host: //p')
built=$target/fuzz/$triple/release
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# build CRATE: its targets, and the program that writes small files of their kinds
build() {
  local log=$target/fuzz-build.log
  cargo +nightly fuzz build --fuzz-dir "$1" --target-dir "$target/fuzz" --target "$triple" >"$log" 2>&1 ||
    { tail -n 60 "$log"; exit 1; }
}

# fuzz CRATE TARGET ARGUMENTS…: the target, with further arguments of libFuzzer's
fuzz() {
  local log=$target/fuzz-$2.log
  mkdir -p "$1/artifacts/$2"
  "$built/$2" "$corpus/$2" "-artifact_prefix=$1/artifacts/$2/" -max_total_time="$seconds" -timeout=20 \
    -print_final_stats=1 -verbosity=0 "${@:3}" >"$log" 2>&1 ||
    { tail -n 60 "$log"; echo "$2: an input fails; it is in $1/artifacts/$2"; return 1; }
  echo "$2: $(awk '/number_of_executed_units/ { print $2 }' "$log") inputs in $seconds s, none that fails"
}

[ $# -gt 0 ] || set -- parse run onnx tflite table npy image jpeg mjpeg
for name; do
  case $name in
    parse | run) device=true ;;
    onnx | tflite | table | npy | image | jpeg | mjpeg) host=true ;;
    inference) service=true ;;
    *) echo "no target $name: parse run onnx tflite table npy image jpeg mjpeg inference" >&2; exit 2 ;;
  esac
done
[ -z "${device:-}" ] || build nae-core/fuzz
[ -z "${host:-}" ] || build tests/fuzz
[ -z "${service:-}" ] || build crates/nae-serve/fuzz

running=0
for name; do
  mkdir -p "$corpus/$name"
  if [ $running = 2 ]; then
    wait -n
    running=1
  fi
  case $name in
    parse | run)
      "$built/model-seeds" "$corpus/$name"
      cp models/*/*.nae nae-core/tests/data/*.nae "$corpus/$name/"
      fuzz nae-core/fuzz "$name" &
      ;;
    inference)
      "$built/inference-seeds" "$corpus/$name"
      fuzz crates/nae-serve/fuzz "$name" -max_len=4096 &
      ;;
    *)
      "$built/host-seeds" "$name" "$corpus/$name"
      [ "$name" != tflite ] || cp tests/vectors/tflite/*.tflite "$corpus/$name/"
      fuzz tests/fuzz "$name" -max_len=16384 &
      ;;
  esac
  running=$((running + 1))
done
while [ $running -gt 0 ]; do
  wait -n
  running=$((running - 1))
done
