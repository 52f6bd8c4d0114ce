#!/usr/bin/env bash
# Builds the libraries, the program nae-infer and its service for arm64, and runs their tests under qemu-user: the loops of
# nae-simd on NEON beside plain code, every backend, the service. That results are right, not how fast they come. Not part of
# tests/run.sh: half an hour on two cores the first time.
#
#   tests/arm64.sh                          everything
#   tests/arm64.sh -p nae-simd [ARGUMENT …]   arguments are for cargo test
#
# Needs a compiler for the target: rustup's (rustup target add aarch64-unknown-linux-gnu), or Debian's rustc-web, cargo-web and
# rust-web-src, by which the standard library is built. And gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
missing=()
command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
  else
    echo "Missing: ${missing[*]}. On Debian: apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi

cargo=cargo
if ! compgen -G "$(rustc --print sysroot)/lib/rustlib/$target/lib/libstd-*.rlib" >/dev/null; then
  if ! [ -x /usr/bin/cargo ] || ! [ -d "$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library" ]; then
    echo "No standard library for $target. One of these helps:" >&2
    echo "  rustup target add $target" >&2
    echo "  apt-get install rustc-web cargo-web rust-web-src   # Debian" >&2
    exit 1
  fi
  # Debian's compiler and source are of one version; -Z build-std is stable enough for that.
  cargo=/usr/bin/cargo
  export RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc CARGO=/usr/bin/cargo RUSTC_BOOTSTRAP=1
  export CARGO_UNSTABLE_BUILD_STD=std,panic_unwind,test
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
# Beside the other builds, whose compiler is another.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/arm64 CARGO_PROFILE_DEV_DEBUG=0

packages=(nae-terminal nae-core nae-graph nae-simd nae-onnx nae-input nae-infer nae-serve nae-infer-cli)
if [ $# -eq 0 ]; then
  set -- "${packages[@]/#/-p}"
fi
# An emulator takes ten times as long: one test at a time keeps within the tests' own limits of time.
exec "$cargo" test --locked --target $target --lib --bins --tests "$@" -- --test-threads=2
