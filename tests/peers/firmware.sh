#!/usr/bin/env bash
# Counts the instructions of one inference of MLPerf Tiny's anomaly detector by another library, under QEMU's Cortex-M4,
# as the project's own firmware is counted: see COMPARE.md.
#
#   NAE_DATA=DIR tests/peers/firmware.sh microflow     DIR has mlperf-tiny-ad01/ad01_int8.tflite
#   tests/peers/firmware.sh burn                       the same layers in f32; builds for some minutes
#
# Needs what tests/qemu.sh needs.
set -euo pipefail
cd "$(dirname "$0")/../.."

peer=${1:-}
case $peer in
  microflow) cp "${NAE_DATA:?the folder that has mlperf-tiny-ad01/ad01_int8.tflite}/mlperf-tiny-ad01/ad01_int8.tflite" tests/peers/microflow/ ;;
  burn) ;;
  *)
    echo "usage: tests/peers/firmware.sh microflow|burn" >&2
    exit 2
    ;;
esac

target=${CARGO_TARGET_DIR:-$PWD/target}
(
  eval "$(firmware-example/toolchain.sh thumbv7em-none-eabihf)"
  cd "tests/peers/$peer" # MicroFlow's macro reads the model from where the compiler runs
  cargo build --quiet --locked --release --target thumbv7em-none-eabihf --target-dir "$target/peers"
)
cargo build --quiet --release -p insn-count
elf=$target/peers/thumbv7em-none-eabihf/release/$peer-ad01
counts=$target/peers/$peer.counts
qemu-system-arm -M mps2-an386 -nographic -monitor none -serial none -semihosting-config enable=on,target=native \
  -plugin "file=$target/release/libinsn_count.so,out=$counts" -kernel "$elf"
echo "$peer, ad01: $(awk '/^region/ { print $2 }' "$counts") executed instructions"
arm-none-eabi-size "$elf"
