#!/usr/bin/env bash
# Runs every command of the guides in docs/ and of the programs' READMEs: the blocks marked `sh`, in order, each guide in
# a folder of its own with the repository's models and data beside. Blocks marked otherwise are for reading.
#
#   tests/guides.sh [GUIDE.md …]     all of them without arguments
#
# Takes the built programs from CARGO_TARGET_DIR (or target), debug unless NAE_PROFILE says release.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,7p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;; esac
cd "$(dirname "$0")/.."
root=$PWD
programs=$(realpath "${CARGO_TARGET_DIR:-target}/${NAE_PROFILE:-debug}")
for program in nae-train nae-infer; do
  [ -x "$programs/$program" ] || { echo "$programs/$program is missing: build nae-train-cli and nae-infer-cli" >&2; exit 1; }
done
export PATH="$programs:$PATH"

guides=("$@")
[ ${#guides[@]} -gt 0 ] || guides=(docs/*.md nae-infer/cli/README.md nae-train/cli/README.md crates/nae-serve/README.md)
trap 'rm -rf "${folder:-}"' EXIT
for guide in "${guides[@]}"; do
  grep -qx '```sh' "$guide" || { echo "$guide: no commands"; continue; }
  folder=$(mktemp -d)
  # Job control, for `kill %1` in a guide. What a guide leaves running ends with it.
  { echo 'set -euo pipefail; set -m; trap "kill \$(jobs -p) 2>/dev/null || true" EXIT'; awk '/^```/ { on = ($0 == "```sh"); next } on' "$guide"; } >"$folder/commands.sh"
  ln -s "$root/models" "$root/data" "$folder/"
  started=$SECONDS
  (cd "$folder" && bash commands.sh >log 2>&1 </dev/null) || { cat "$folder/log"; echo "$guide: a command failed" >&2; exit 1; }
  rm -rf "$folder"
  echo "$guide: $((SECONDS - started)) s"
done
