#!/usr/bin/env bash
# Counts the instructions of one inference of MLPerf Tiny's anomaly detector by MicroFlow 0.1.3 (crates.io), under QEMU's
# Cortex-M4, as the project's own firmware is counted: see COMPARE.md.
#
#   NAE_DATA=DIR tests/peers/microflow.sh     DIR has mlperf-tiny-ad01/ad01_int8.tflite
#
# Needs what tests/qemu.sh needs.
set -euo pipefail
cd "$(dirname "$0")/../.."

target=${CARGO_TARGET_DIR:-$PWD/target}
folder=tests/peers/microflow
cp "${NAE_DATA:?the folder that has mlperf-tiny-ad01/ad01_int8.tflite}/mlperf-tiny-ad01/ad01_int8.tflite" $folder/
(
  eval "$(firmware-example/toolchain.sh thumbv7em-none-eabihf)"
  cd $folder # its macro reads the model from where the compiler runs
  cargo build --quiet --locked --release --target thumbv7em-none-eabihf --target-dir "$target/peers"
)
cargo build --quiet --release -p insn-count
elf=$target/peers/thumbv7em-none-eabihf/release/microflow-ad01
counts=$target/peers/microflow.counts
qemu-system-arm -M mps2-an386 -nographic -monitor none -serial none -semihosting-config enable=on,target=native \
  -plugin "file=$target/release/libinsn_count.so,out=$counts" -kernel "$elf"
echo "MicroFlow 0.1.3, ad01_int8.tflite: $(awk '/^region/ { print $2 }' "$counts") executed instructions"
arm-none-eabi-size "$elf"
