#!/usr/bin/env bash
# Mutation testing: cargo-mutants changes one expression at a time where a wrong one would be an alarm too few or too many,
# and the tests beside it have to notice. Not part of tests/run.sh.
#
#   tests/mutants.sh                    every area
#   tests/mutants.sh calibration        some of them: calibration verdict energy parse writer journal sampler loss chain
#   tests/mutants.sh --changed COMMIT   of every area, only what changed since a commit
#   tests/mutants.sh --list             what would be changed
#
# What no test notices fails this script, but where tests/mutants.txt says why none can. A line there that is noticed by
# now fails it, too. cargo-mutants goes into the target folder.
set -euo pipefail
cd "$(dirname "$0")/.."

version=27.1.0
target=${CARGO_TARGET_DIR:-$PWD/target}
tool=$target/tools/bin/cargo-mutants

files() { # AREA: package, files, and the tests that are to notice
  case $1 in
    calibration) echo "nae-core nae-core/src/calibration/*.rs -- --lib --test calibration --test decision" ;;
    verdict) echo "nae-core nae-core/src/verdict.rs nae-core/src/drift.rs -- --lib --test decision" ;;
    energy) echo "nae-core nae-core/src/energy/*.rs -- --lib --test energy --test engine --test engine_int8 --test int8_values" ;;
    parse) echo "nae-core nae-core/src/model/parse.rs nae-core/src/model/validate.rs nae-core/src/format/bytes.rs nae-core/src/format/header.rs nae-core/src/format/record.rs nae-core/src/format/operation.rs --" ;;
    writer) echo "nae-graph crates/nae-graph/src/emit.rs crates/nae-graph/src/record.rs --" ;;
    journal) echo "nae-serve crates/nae-serve/src/journal.rs -- --lib journal" ;;
    sampler) echo "nae-train nae-train/src/sample/*.rs -- --lib --test method sample chain langevin presets" ;;
    loss) echo "nae-train nae-train/src/methods/nae.rs nae-train/src/methods/mmd.rs nae-train/src/methods/gradients.rs -- --lib --test method methods likelihood" ;;
    chain) echo "nae-train nae-train/src/engine/chain.rs -- --test method chain" ;;
    *) echo "unknown area: $1; see $0 --help" >&2; exit 2 ;;
  esac
}

areas=() options=() since=""
while [ $# -gt 0 ]; do
  case $1 in
    --changed) since=$2; shift ;;
    --list) options+=(--list) ;;
    -h | --help) sed -n '2,12p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) areas+=("$1") ;;
  esac
  shift
done
[ ${#areas[@]} -gt 0 ] || areas=(calibration verdict energy parse writer journal sampler loss chain)

[ -x "$tool" ] || cargo install --quiet --locked --root "$target/tools" "cargo-mutants@$version"
out=$target/mutants
mkdir -p "$out"
if [ -n "$since" ]; then
  git diff "$since" >"$out/changes.diff"
  options+=(--in-diff "$out/changes.diff")
fi

failed=0
for area in "${areas[@]}"; do
  read -r package rest <<<"$(files "$area")"
  sources=() tests=() after=false
  # Globs are meant to be expanded here.
  for word in ${rest}; do
    if [ "$word" = -- ]; then after=true; elif $after; then tests+=("$word"); else sources+=(--file "$word"); fi
  done
  rm -rf "$out/$area"
  # 2: some are not noticed; 3: some ran out of time, which is as good as noticed.
  "$tool" mutants --package "$package" "${sources[@]}" "${options[@]}" --output "$out/$area" --no-shuffle --colors never \
    --exclude-re 'impl fmt::(Display|Debug)' \
    --minimum-test-timeout 60 -- "${tests[@]}" || [ $? -le 3 ]
  [[ " ${options[*]} " != *" --list "* ]] || continue
  results=$out/$area/mutants.out
  # Without places, which move: a line of the list is `path: what was replaced by what`.
  sed -E 's/^([^:]*):[0-9]+:[0-9]+: /\1: /' "$results/missed.txt" | sort -u >"$out/$area/missed"
  sed -E '/^#/d; /^$/d' tests/mutants.txt | sort -u >"$out/$area/explained"
  count() { wc -l <"$results/$1.txt"; }
  echo "$area: $(count caught) noticed, $(count timeout) without end, $(count missed) not noticed, $(count unviable) do not compile"
  if unexplained=$(comm -23 "$out/$area/missed" "$out/$area/explained" | grep .); then
    printf 'No test notices, and tests/mutants.txt does not say why:\n%s\n' "$unexplained" >&2
    failed=1
  fi
  noticed=$(sed -E 's/^([^:]*):[0-9]+:[0-9]+: /\1: /' "$results/caught.txt" | sort -u)
  if stale=$(comm -23 <(echo "$noticed") "$out/$area/missed" | comm -12 - "$out/$area/explained" | grep .); then
    printf 'In tests/mutants.txt, but noticed:\n%s\n' "$stale" >&2
    failed=1
  fi
done
exit $failed
