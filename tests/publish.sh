#!/usr/bin/env bash
# Makes every package that is to be published, as it would be sent, and builds each from its package alone, in the order in
# which they depend on one another. Sends nothing. Needs crates.io's index.
#
#   tests/publish.sh --quick    packs them only: seconds; tests/run.sh does this
#   tests/publish.sh            builds them as well: a quarter of an hour on two cores, burn and tract among it
set -euo pipefail
cd "$(dirname "$0")/.."

verify=()
case ${1:-} in
  '') ;;
  --quick) verify=(--no-verify) ;;
  -h | --help) sed -n '2,6p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
  *) echo "unknown argument: $1; see $0 --help" >&2; exit 2 ;;
esac
# A package that is made has changed files in it while one works on them.
cargo publish --workspace --dry-run --locked --allow-dirty --quiet "${verify[@]}"

# Whatever a package includes lies in it: without a build, nothing else would notice.
outside=0
while IFS= read -r manifest; do
  folder=$(dirname "$manifest")
  grep -q '^publish = false' "$manifest" && continue
  while IFS=: read -r source line; do
    path=$(sed -E 's/.*include_(str|bytes)!\("([^"]+)"\).*/\2/' <<<"$line")
    [[ $(realpath -s --relative-to "$folder" "$(dirname "$source")/$path") != ../* ]] ||
      { echo "$source includes $path, which is outside of its package" >&2; outside=1; }
  done < <(grep -rHE 'include_(str|bytes)!\("' --include=*.rs "$folder/src" || true)
done < <(git ls-files '*Cargo.toml' | grep -vE '^(tests|firmware-example)/|fuzz/|^Cargo.toml$')
exit $outside
