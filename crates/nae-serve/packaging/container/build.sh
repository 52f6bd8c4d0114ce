#!/usr/bin/env bash
# Makes the container image of the camera service, without a daemon, by buildah (Debian: apt-get install buildah).
#
#   crates/nae-serve/packaging/container/build.sh [NAME]     NAME is nae-infer unless given
#
# The image is in buildah's store, for `buildah push NAME docker-archive:FILE.tar` or a registry. Where a kernel or a container
# gives no overlay file system, STORAGE_DRIVER=vfs helps.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
name=${1:-nae-infer}

command -v buildah >/dev/null || { echo "Missing: buildah. On Debian: apt-get install buildah" >&2; exit 1; }
# `simd` is the backend for every exported model; tract would add 15 MB for models of others.
cargo build --locked --profile dist -p nae-infer-cli --no-default-features --features serve,simd

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
program=${CARGO_TARGET_DIR:-target}/dist/nae-infer
mkdir -p "$context/root/state" "$context/root/tmp"
cp "$program" "$context/root/"
# What the program is linked with, where the loader looks for it.
ldd "$program" | grep -oE '/[^ ]+' | while read -r library; do
  install -D -m 755 "$(realpath "$library")" "$context/root$library"
done
chown -R 65532:65532 "$context/root/state" 2>/dev/null || true
# Docker's form: OCI's has no health check.
buildah bud --isolation chroot --format docker --tag "$name" \
  --file crates/nae-serve/packaging/container/Containerfile "$context"
du -sh "$context/root" | awk '{ print "files: " $1 }'
