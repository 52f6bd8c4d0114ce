#!/usr/bin/env bash
# Finds a Rust toolchain for bare-metal targets and prints the environment it needs, for eval:
#
#   eval "$(firmware-example/toolchain.sh thumbv7em-none-eabihf thumbv7m-none-eabi)"
#   cargo build --profile firmware --target thumbv7em-none-eabihf …
#
# 1. The active toolchain has the targets (`rustup target add …` was run): nothing to set.
# 2. Debian's rustc-web, cargo-web and rust-web-src are installed: their `core` is built once per
#    target, some 30 seconds each, into a cache folder, and a wrapper makes rustc find it. Compiler
#    and source are of one version there; rustup's compiler would not take Debian's source.
# 3. Neither: says what to run, and fails.
#
# The cache is $NAE_TOOLCHAIN_CACHE, else under $XDG_CACHE_HOME or ~/.cache.
set -euo pipefail

targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(thumbv7em-none-eabihf thumbv7m-none-eabi)

has_core() { # SYSROOT TARGET
  compgen -G "$1/lib/rustlib/$2/lib/libcore-*.rlib" >/dev/null
}

if command -v rustc >/dev/null; then
  sysroot=$(rustc --print sysroot)
  complete=yes
  for target in "${targets[@]}"; do has_core "$sysroot" "$target" || complete=no; done
  [ $complete = no ] || exit 0
fi

rustc=/usr/bin/rustc
cargo=/usr/bin/cargo
if ! [ -x $rustc ] || ! [ -x $cargo ] || ! [ -d "$($rustc --print sysroot)/lib/rustlib/src/rust/library" ]; then
  echo "No toolchain for ${targets[*]}. One of these helps:" >&2
  echo "  rustup target add ${targets[*]}" >&2
  echo "  apt-get install rustc-web cargo-web rust-web-src   # Debian" >&2
  exit 1
fi

debian=$($rustc --print sysroot)
host=$($rustc -vV | sed -n 's/^host: //p')
version=$($rustc --version | cut -d' ' -f2)
cache=${NAE_TOOLCHAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nae-firmware-toolchain}/$version

# A linker named rust-lld: Debian's compiler does not bring one. A rustup toolchain has it, or lld.
lld=
if command -v rustup >/dev/null; then
  for toolchain in $(rustup toolchain list | cut -d' ' -f1); do
    candidate=$(rustup run "$toolchain" rustc --print sysroot 2>/dev/null)/lib/rustlib/$host/bin/rust-lld
    [ -x "$candidate" ] && lld=$candidate && break
  done
fi
[ -n "$lld" ] || lld=$(command -v ld.lld) || {
  echo "No linker for ${targets[*]}: apt-get install lld" >&2
  exit 1
}

mkdir -p "$cache/bin" "$cache/lib/rustlib"
exec 9>"$cache/lock"
flock 9
ln -sfn "$debian/lib/rustlib/$host" "$cache/lib/rustlib/$host"
ln -sfn "$cargo" "$cache/bin/cargo"
cat >"$cache/bin/rustc" <<WRAPPER
#!/bin/sh
exec $rustc --sysroot $cache "\$@"
WRAPPER
# rustc asks for `rust-lld -flavor gnu …`; a linker called ld.lld has its flavour by name.
cat >"$cache/bin/rust-lld" <<WRAPPER
#!/bin/sh
[ "\$1" = -flavor ] && shift 2
exec -a ld.lld $lld "\$@"
WRAPPER
sed -i 's|^#!/bin/sh|#!/bin/bash|' "$cache/bin/rust-lld"
chmod +x "$cache/bin/rustc" "$cache/bin/rust-lld"

for target in "${targets[@]}"; do
  has_core "$cache" "$target" && continue
  echo "Building core for $target (once)" >&2
  work=$(mktemp -d)
  mkdir "$work/src"
  echo '#![no_std]' >"$work/src/lib.rs"
  cat >"$work/Cargo.toml" <<'MANIFEST'
[package]
name = "empty"
version = "0.0.0"
edition = "2024"
[profile.release]
opt-level = 3
codegen-units = 1
MANIFEST
  # Bitcode: the firmware is linked with LTO. RUSTC_BOOTSTRAP: build-std is not stable.
  (
    cd "$work"
    env -u CARGO_ENCODED_RUSTFLAGS RUSTFLAGS=-Cembed-bitcode=yes RUSTC_BOOTSTRAP=1 RUSTC=$rustc \
      CARGO_TARGET_DIR="$work/target" $cargo build --quiet --release --target "$target" \
      -Z build-std=core,alloc -Z build-std-features=compiler-builtins-mem >&2
  )
  mkdir -p "$cache/lib/rustlib/$target/lib"
  cp "$work/target/$target/release/deps/"lib{core,alloc,compiler_builtins}-*.rlib "$cache/lib/rustlib/$target/lib/"
  rm -rf "$work"
done

echo "export PATH=$cache/bin:\$PATH RUSTC=$cache/bin/rustc CARGO=$cache/bin/cargo"
