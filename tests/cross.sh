#!/usr/bin/env bash
# The libraries, the program nae-infer and its service for another processor or another system:
#
#   tests/cross.sh arm64 [ARGUMENT …]     their tests under qemu-user: NEON beside plain code, every backend, the service
#   tests/cross.sh armv7 [ARGUMENT …]     the same for 32 bits
#   tests/cross.sh windows [ARGUMENT …]   that program and service compile; nothing runs
#   tests/cross.sh macos [ARGUMENT …]     the same for macOS on Arm
#
# Arguments are for cargo: `tests/cross.sh arm64 -p nae-simd`. That results are right, not how fast they come. Not part of
# tests/run.sh: half an hour on two cores the first time.
#
# Needs a standard library for the target: rustup's (rustup target add …), or Debian's rustc-web, cargo-web and rust-web-src, by
# which it is built. And a linker for it, libc, and qemu-user, which are installed where this script may. The kernel is told, until it
# starts again, to run such programs by qemu-user (binfmt_misc), since the service's tests start the program and it starts itself.
# For macOS, whose headers no Debian package has, what is in C (SQLite, ring) is compiled by Zig's compiler, from PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  arm64)
    target=aarch64-unknown-linux-gnu prefix=aarch64-linux-gnu emulator=qemu-aarch64
    packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user qemu-user-binfmt)
    ;;
  armv7)
    target=armv7-unknown-linux-gnueabihf prefix=arm-linux-gnueabihf emulator=qemu-arm
    packages=(gcc-arm-linux-gnueabihf libc6-dev-armhf-cross qemu-user qemu-user-binfmt)
    ;;
  windows)
    target=x86_64-pc-windows-gnu prefix=x86_64-w64-mingw32 emulator=
    packages=(gcc-mingw-w64-x86-64)
    ;;
  macos) target=aarch64-apple-darwin prefix= emulator= packages=() ;;
  -h | --help) sed -n '2,15p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
  *) sed -n '2,15p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
shift

emulation=/usr/lib/binfmt.d/$emulator.conf
if { [ -n "$prefix" ] && ! command -v $prefix-gcc >/dev/null; } || { [ -n "$emulator" ] && ! [ -e "$emulation" ]; }; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${packages[@]}"
  else
    echo "Missing: ${packages[*]}. On Debian: apt-get install ${packages[*]}" >&2
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
if [ -n "$prefix" ]; then
  variable=$(tr 'a-z-' 'A-Z_' <<<"$target")
  export "CARGO_TARGET_${variable}_LINKER=$prefix-gcc"
fi
if [ -n "$emulator" ]; then
  registry=/proc/sys/fs/binfmt_misc
  [ -e $registry/register ] || mount -t binfmt_misc none $registry 2>/dev/null || true
  [ -e "$registry/$emulator" ] || { cat "$emulation" >$registry/register; } 2>/dev/null || true
  if ! [ -e "$registry/$emulator" ]; then
    echo "The system does not run programs of $target, and this script may not tell it how. As root, once:" >&2
    echo "  mount -t binfmt_misc none $registry; cat $emulation >$registry/register" >&2
    exit 1
  fi
  export QEMU_LD_PREFIX=/usr/$prefix
fi
# Beside the other builds, whose compiler is another.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/cross CARGO_PROFILE_DEV_DEBUG=0

if [ -z "$emulator" ]; then
  # With the backend for every exported model; tract was not tried.
  [ $# -gt 0 ] || set -- -p nae-infer-cli -p nae-serve --no-default-features --features nae-infer-cli/serve,nae-infer-cli/simd
  check=("$cargo" check)
  if [ $target = aarch64-apple-darwin ]; then
    zig=$CARGO_TARGET_DIR/zig
    [ -x "$zig/bin/cargo-zigbuild" ] || { python3 -m venv "$zig"; "$zig/bin/pip" install -q ziglang==0.17.1 cargo-zigbuild==0.24.1; }
    export PATH="$zig/bin:$PATH" CARGO=$cargo
    check=(cargo-zigbuild check)
  fi
  exec "${check[@]}" --locked --target $target --lib --bins "$@"
fi
packages=(nae-terminal nae-core nae-graph nae-simd nae-onnx nae-input nae-infer nae-serve nae-infer-cli)
[ $# -gt 0 ] || set -- "${packages[@]/#/-p}"
# An emulator takes ten times as long: few tests at a time keep within the tests' own limits of time.
exec "$cargo" test --locked --target $target --lib --bins --tests "$@" -- --test-threads=2
