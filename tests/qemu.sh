#!/usr/bin/env bash
# Builds the firmware for Cortex-M0, M3, M4F (M7), M33 and M55 and for RV32IMAC, runs it under QEMU and checks its energies
# against the host's, and the log-mel features; runs MLPerf Tiny's anomaly detector and a test set of MNIST where NAE_DATA
# has them, and ToyCar's clips where NAE_TOYCAR names the folder that models/toycar/make.sh made; counts the instructions
# of the 8-bit kernels on Cortex-M3, M4, M33 and M55; builds the binary for the real board; builds and runs a program in C on
# nae-core's C interface; checks that nae-core needs no std.
#
#   tests/qemu.sh                  fails if a kernel takes more than 2% above the recorded count, or an inference 5% from it
#   NAE_RECORD=1 tests/qemu.sh     records the counts: firmware-example/kernel-bench/counts-*.md
#
# Needs qemu-system-arm, qemu-system-misc (its qemu-system-riscv32), binutils-arm-none-eabi, gcc-arm-none-eabi, and a
# bare-metal Rust (firmware-example/toolchain.sh says which).
# defmt-print and flip-link are taken from PATH, else installed into the target folder.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,13p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;; esac
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
defmt_print_version=1.2.0
flip_link_version=0.1.12

missing=()
command -v qemu-system-arm >/dev/null || missing+=(qemu-system-arm)
command -v qemu-system-riscv32 >/dev/null || missing+=(qemu-system-misc)
command -v arm-none-eabi-nm >/dev/null || missing+=(binutils-arm-none-eabi)
command -v arm-none-eabi-gcc >/dev/null || missing+=(gcc-arm-none-eabi)
if [ ${#missing[@]} -gt 0 ]; then
  echo "Missing: ${missing[*]}. On Debian: apt-get install ${missing[*]}" >&2
  exit 1
fi
toolchain=$(firmware-example/toolchain.sh thumbv6m-none-eabi thumbv7em-none-eabihf thumbv7m-none-eabi \
  thumbv8m.main-none-eabihf riscv32imac-unknown-none-elf)

tool() { # NAME VERSION: prints its path
  command -v "$1" && return
  [ -x "$target/tools/bin/$1" ] || cargo install --quiet --debug --locked --root "$target/tools" "$1@$2" >&2
  echo "$target/tools/bin/$1"
}
NAE_DEFMT_PRINT=$(tool defmt-print $defmt_print_version)
flip_link=$(tool flip-link $flip_link_version)
export NAE_DEFMT_PRINT

firmware() ( # TARGET BINARY FEATURE [PACKAGE]
  eval "$toolchain"
  # flip-link puts the stack below the statics: an overflow faults instead of overwriting them. It knows Arm alone.
  if [[ $1 = thumb* ]]; then
    variable=CARGO_TARGET_$(tr 'a-z.-' 'A-Z__' <<<"$1")_LINKER
    export "$variable=$flip_link"
  fi
  cargo build --quiet --profile firmware --target "$1" -p "${4:-firmware-example}" --bin "$2" --features "$3"
)

echo "Building the firmware"
for cpu in thumbv7em-none-eabihf thumbv7m-none-eabi riscv32imac-unknown-none-elf; do
  firmware $cpu qemu qemu,f32-model
  cp "$target/$cpu/firmware/qemu" "$target/$cpu/firmware/qemu-f32"
  firmware $cpu qemu qemu
  # It does not link if the parser, the engine or what decides could panic.
  firmware $cpu panic-free firmware
done
firmware thumbv6m-none-eabi qemu qemu
firmware thumbv6m-none-eabi panic-free firmware
firmware thumbv7em-none-eabihf overflow qemu
firmware thumbv7em-none-eabihf embassy embassy
firmware thumbv7em-none-eabihf rtic rtic
firmware thumbv7em-none-eabihf log-mel qemu
firmware thumbv7em-none-eabihf nucleo-f411re board-nucleo-f411re
# panic-free does not link if a kernel could panic.
for t in thumbv7em-none-eabihf thumbv7m-none-eabi; do
  firmware $t kernel-bench firmware kernel-bench
  firmware $t known firmware kernel-bench
  firmware $t panic-free firmware kernel-bench
done
for core in m33 m55; do
  export CARGO_TARGET_THUMBV8M_MAIN_NONE_EABIHF_RUSTFLAGS="-C target-cpu=cortex-$core"
  firmware thumbv8m.main-none-eabihf kernel-bench firmware kernel-bench
  firmware thumbv8m.main-none-eabihf known firmware kernel-bench
  firmware thumbv8m.main-none-eabihf panic-free firmware kernel-bench
  firmware thumbv8m.main-none-eabihf qemu qemu
  for binary in kernel-bench known qemu; do
    cp "$target/thumbv8m.main-none-eabihf/firmware/$binary" "$target/$binary-$core"
  done
done
# MLPerf Tiny's anomaly detector, which is not part of the project.
ad01=${NAE_DATA:-}/mlperf-tiny-ad01/ad01_int8.tflite
if [ -f "$ad01" ]; then
  export NAE_AD01=$target/ad01.nae
  cargo run --quiet -p nae-onnx --example tflite_to_nae -- "$ad01" "$NAE_AD01"
  firmware thumbv7em-none-eabihf ad01 ad01
  firmware thumbv7em-none-eabihf ad01-size ad01
  firmware thumbv7em-none-eabihf sound ad01
  export NAE_FIRMWARE_AD01=$target/thumbv7em-none-eabihf/firmware/ad01
  export NAE_FIRMWARE_SOUND=$target/thumbv7em-none-eabihf/firmware/sound
  export NAE_FIRMWARE_AD01_SIZE=$target/thumbv7em-none-eabihf/firmware/ad01-size
fi
# The 8-bit models whose energies are taken of whole test sets, on the cores that have room.
export NAE_ENERGIES=$target/energies
mkdir -p "$NAE_ENERGIES"
rm -f "$NAE_ENERGIES"/*
cp models/mnist-small/mnist-small-int8.nae "$NAE_ENERGIES/mnist-small.nae"
cp models/digits/digits-int8-plain.nae "$NAE_ENERGIES/digits-plain.nae"
cp models/mnist-small/mnist-small-int8-plain.nae "$NAE_ENERGIES/mnist-small-plain.nae"
if [ -f "$ad01" ]; then cp "$NAE_AD01" "$NAE_ENERGIES/ad01.nae"; fi
if [ -n "${NAE_TOYCAR:-}" ]; then cp "$NAE_TOYCAR/toycar-int8.nae" "$NAE_ENERGIES/toycar.nae"; fi
for model in "$NAE_ENERGIES"/*.nae; do
  export NAE_MODEL=$model
  case $model in *-plain.nae) cores=(m55) ;; *) cores=(m3 m4 m33 m55) ;; esac
  for core in "${cores[@]}"; do
    case $core in
      m3) t=thumbv7m-none-eabi ;;
      m4) t=thumbv7em-none-eabihf ;;
      *) t=thumbv8m.main-none-eabihf ;;
    esac
    export CARGO_TARGET_THUMBV8M_MAIN_NONE_EABIHF_RUSTFLAGS="-C target-cpu=cortex-$core"
    firmware $t energies energies
    cp "$target/$t/firmware/energies" "${model%.nae}-$core"
  done
done
# The C interface, in a program in C: with every operator, and with those of one model. Neither links as a whole if the
# library could panic; what is measured is linked without what it does not use.
c_interface() ( # NAME FEATURES
  # No linker is used, but cargo would rebuild what is shared with the firmware for another.
  export CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER=$flip_link
  cargo=(cargo rustc --quiet --profile firmware --target thumbv7em-none-eabihf -p nae-core-c --lib --crate-type staticlib --features "$2")
  (eval "$toolchain" && NAE_MODEL=$PWD/models/digits/digits-int8.nae "${cargo[@]}")
  library=$target/thumbv7em-none-eabihf/firmware/libnae_core_c.a
  mkdir -p "$target/c-interface/$1"
  cp "$target/c-interface/digits.h" "$target/c-interface/$1"
  nae-core/c/examples/cortex-m4f/build.sh "$library" "$target/c-interface/$1" -Wl,--no-gc-sections
  nae-core/c/examples/cortex-m4f/build.sh "$library" "$target/c-interface/$1"
)
mkdir -p "$target/c-interface"
cargo run --quiet -p nae-core-c --example embed -- models/digits/digits-int8.nae digits >"$target/c-interface/digits.h"
c_interface all panic-hook
c_interface one panic-hook,one-model
# As they come: nae-core, and the C interface with a panic handler of its own.
(eval "$toolchain" && cargo build --quiet --target thumbv7m-none-eabi -p nae-core -p nae-core-c)
cargo build --quiet --release -p insn-count

export NAE_FIRMWARE_M4F=$target/thumbv7em-none-eabihf/firmware/qemu
export NAE_FIRMWARE_M0=$target/thumbv6m-none-eabi/firmware/qemu
export NAE_FIRMWARE_M33=$target/qemu-m33 NAE_FIRMWARE_M55=$target/qemu-m55
export NAE_FIRMWARE_LOG_MEL=$target/thumbv7em-none-eabihf/firmware/log-mel
export NAE_FIRMWARE_EMBASSY=$target/thumbv7em-none-eabihf/firmware/embassy
export NAE_FIRMWARE_RTIC=$target/thumbv7em-none-eabihf/firmware/rtic
export NAE_FIRMWARE_OVERFLOW=$target/thumbv7em-none-eabihf/firmware/overflow
export NAE_FIRMWARE_M3=$target/thumbv7m-none-eabi/firmware/qemu
export NAE_FIRMWARE_RISC_V=$target/riscv32imac-unknown-none-elf/firmware/qemu
export NAE_C_ALL=$target/c-interface/all/score.elf NAE_C_ONE=$target/c-interface/one/score.elf
export NAE_INSN_COUNT=$target/release/libinsn_count.so
export NAE_KERNEL_BENCH_M4=$target/thumbv7em-none-eabihf/firmware/kernel-bench
export NAE_KERNEL_BENCH_M3=$target/thumbv7m-none-eabi/firmware/kernel-bench
export NAE_KERNEL_BENCH_M33=$target/kernel-bench-m33 NAE_KERNEL_BENCH_M55=$target/kernel-bench-m55
cargo test --quiet -p firmware-example --features qemu-test --lib --test application --test qemu -- --nocapture --test-threads=1 --skip detection::
# The host's side of whole test sets, in a build that is fast enough.
cargo test --quiet --release -p firmware-example --features qemu-test --test qemu -- --nocapture --test-threads=1 detection::
export NAE_FIRMWARE_M4F=$target/thumbv7em-none-eabihf/firmware/qemu-f32
export NAE_FIRMWARE_M3=$target/thumbv7m-none-eabi/firmware/qemu-f32
export NAE_FIRMWARE_RISC_V=$target/riscv32imac-unknown-none-elf/firmware/qemu-f32
cargo test --quiet -p firmware-example --features qemu-test,f32-model --test qemu -- --nocapture --test-threads=1 cortex risc_v
cargo test --quiet -p kernel-bench --features qemu-test -- --nocapture
