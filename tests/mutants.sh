#!/usr/bin/env bash
# Mutation testing: cargo-mutants changes one expression at a time where a wrong one would be an alarm too few or too many,
# and the tests beside it have to notice. Not part of tests/run.sh.
#
#   tests/mutants.sh                    every area
#   tests/mutants.sh calibration        some of them: calibration verdict energy parse writer journal sampler starts loss chain
#   tests/mutants.sh --changed COMMIT   of every area, only what changed since a commit; stops after nine minutes
#   tests/mutants.sh --minutes N …      stops after N minutes, and lists what it left out
#   tests/mutants.sh --list …           what would be changed
#
# What no test notices fails this script, but where tests/mutants.txt says why none can. A line there that is noticed by
# now fails it, too. cargo-mutants, a copy of the sources, and what is built of it go into the target folder.
set -euo pipefail
cd "$(dirname "$0")/.."

version=27.1.0
target=${CARGO_TARGET_DIR:-$PWD/target}
tool=$target/tools/bin/cargo-mutants

# AREA: package, files -- targets of tests -- names of tests. The tests are those beside the files: one that notices by way of
# a whole training or service costs minutes a change, and does not say what is wrong.
files() {
  case $1 in
    calibration) echo "nae-core nae-core/src/calibration/*.rs -- --lib --test=calibration" ;;
    verdict) echo "nae-core nae-core/src/verdict.rs nae-core/src/drift.rs -- --lib --test=decision" ;;
    energy) echo "nae-core nae-core/src/energy/*.rs -- --lib --test=energy" ;;
    # What reads a file of unknown origin. Out: crc.rs, whose check value is the catalogue's, error.rs, which is words, and
    # operators.rs, whose bits are checked when it is compiled and by a test of embedded models.
    parse) echo "nae-core nae-core/src/model/parse.rs nae-core/src/model/check.rs nae-core/src/model/parameters.rs nae-core/src/model/validate.rs nae-core/src/format/bytes.rs nae-core/src/format/header.rs nae-core/src/format/record.rs nae-core/src/format/work.rs nae-core/src/format/operation.rs -- --lib --test=hostile --test=parse" ;;
    # What makes such a file; its numbers are compared with TFLite's in a test of nae-core.
    writer) echo "nae-graph crates/nae-graph/src/emit.rs crates/nae-graph/src/record.rs -- --lib --test=emit --package=nae-core --test=parse --test=engine_int8" ;;
    journal) echo "nae-serve crates/nae-serve/src/journal.rs -- --lib -- journal" ;;
    # nae-train takes a quarter of a minute to compile for each change, so only where the paper's equations are. Out: noise.rs,
    # precision.rs and frozen.rs, what chains draw, compute in and call.
    sampler) echo "nae-train nae-train/src/sample/langevin.rs nae-train/src/sample/metropolis.rs nae-train/src/sample/annealing.rs nae-train/src/sample/bounds.rs nae-train/src/sample/gradient_clip.rs -- --lib --test=method -- sample:: chain:: langevin_density:: sampler_starts:: sampler_determinism::" ;;
    # Where chains start: on the manifold, at the data, or where chains before ended.
    starts) echo "nae-train nae-train/src/sample/negatives.rs nae-train/src/sample/start.rs nae-train/src/sample/recovery.rs nae-train/src/sample/persistent.rs nae-train/src/sample/replay_buffer.rs nae-train/src/sample/new_images.rs -- --lib --test=method -- sample:: sampler_starts:: sampler_determinism::" ;;
    # And the step along its gradient. Out: mmd.rs, of a method to compare with, and gradients.rs, which likelihood_gradient.rs compares.
    loss) echo "nae-train nae-train/src/methods/nae/loss.rs nae-train/src/methods/nae/mod.rs nae-train/src/methods/nae/balance.rs nae-train/src/methods/adam.rs nae-train/src/methods/optimizer.rs -- --lib --test=method -- methods::nae methods::adam methods::optimizer methods::finite_differences methods::gradients likelihood_gradient::" ;;
    chain) echo "nae-train nae-train/src/engine/chain.rs -- --test=method -- chain" ;;
    *) echo "unknown area: $1; see $0 --help" >&2; exit 2 ;;
  esac
}

# What a change cannot make wrong, or not in another way than one that is made:
excluded=(
  # Words.
  'impl fmt::(Display|Debug)'
  # A record of a kind that was not asked for is read all the same; nobody looks at it.
  'match guard kinds\.contains\(Kind::\w+\) with true'
  # Of several constants for what a function returns, the first.
  'with Ok\(\((-?[01]\.0, -?1\.0|-?1\.0, 0\.0)\)\)'
  'with \((\[-?1; 2\], -?[01]|\[0; 2\], -?1)\)'
  'Vec::leak\(vec!'
  'with Some\(\([01], [01], BTreeMap::from_iter'
  'with Some\(\((0, 1|1, [01]), BTreeMap::new'
  # These do not compile.
  'with (MutexGuard|Box::leak\(Box::new\(Contract)::'
)

# Not optimized: these are recompiled for each change, in half a minute where it would be three. What they call still is.
unoptimized=()
for package in nae-train nae-lab; do unoptimized+=("-C=--config=profile.dev.package.$package.opt-level=0"); done

areas=() options=() since="" minutes="" list=false
while [ $# -gt 0 ]; do
  case $1 in
    --changed) since=$2 minutes=${minutes:-9}; shift ;;
    --minutes) minutes=$2; shift ;;
    --list) list=true ;;
    -h | --help) sed -n '2,12p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) areas+=("$1") ;;
  esac
  shift
done
[ ${#areas[@]} -gt 0 ] || areas=(calibration verdict energy parse writer journal sampler starts loss chain)

[ -x "$tool" ] || cargo install --quiet --locked --root "$target/tools" "cargo-mutants@$version"
out=$target/mutants
tree=$out/tree
mkdir -p "$tree"
if [ -n "$since" ]; then
  git diff --no-ext-diff --src-prefix=a/ --dst-prefix=b/ "$since" -- '*.rs' >"$out/changes.diff"
  options+=(--in-diff "$out/changes.diff")
fi
for pattern in "${excluded[@]}"; do options+=(--exclude-re "$pattern"); done

# A copy of the sources that stays where it is, and one folder for what is built of it: the areas share what they depend on,
# and the next run finds it built. A file is copied only where it differs, and then with the time of the copy: Cargo goes by
# times, and would take what it built of a changed expression for current if the file got its old time back.
copy_sources() {
  git ls-files -z --cached --others --exclude-standard | LC_ALL=C sort -z >"$out/files"
  while IFS= read -r -d '' file; do
    if [ ! -f "$file" ] || cmp -s "$file" "$tree/$file"; then continue; fi
    mkdir -p "$tree/$(dirname "$file")"
    cp --remove-destination "$file" "$tree/$file"
  done <"$out/files"
  (cd "$tree" && find . -type f -printf '%P\0' | LC_ALL=C sort -z | LC_ALL=C comm -z -23 - "$out/files" | xargs -0 -r rm -f)
}

# Seconds of this script's children on the processors, once they have ended. A subshell would count its own.
processors() {
  times >"$out/times"
  seconds=$(awk 'END { split($0, t, /[ms ]+/); printf "%d", (t[1] + t[3]) * 60 + t[2] + t[4] }' "$out/times")
}

if ! $list; then
  exec 9>"$out/lock"
  flock -n 9 || { echo "another run is using $out" >&2; exit 2; }
  copy_sources
fi
export CARGO_TARGET_DIR=$out/build

failed=0 left_out=0
for area in "${areas[@]}"; do
  read -r package rest <<<"$(files "$area")"
  sources=() tests=() names=() part=sources
  # The globs are cargo-mutants'.
  set -f
  for word in $rest; do
    case $part:$word in
      sources:--) part=tests ;;
      tests:--) part=names ;;
      sources:*) sources+=(--file "$word") ;;
      tests:*) tests+=("$word") ;;
      names:*) names+=("$word") ;;
    esac
  done
  set +f
  "$tool" mutants --package "$package" "${sources[@]}" "${options[@]}" --colors never --level warn --list >"$out/$area.list"
  if $list; then cat "$out/$area.list"; continue; fi
  [ -s "$out/$area.list" ] || continue

  left=$((minutes ? minutes * 60 - SECONDS : 0))
  if [ -n "$minutes" ] && [ "$left" -le 0 ]; then
    echo "$area: no time left for $(wc -l <"$out/$area.list")" >&2
    left_out=$((left_out + $(wc -l <"$out/$area.list")))
    continue
  fi
  rm -rf "${out:?}/$area"
  processors
  began=$seconds status=0
  # The tests are named with `-C`, for building too: cargo-mutants builds every test of the package for each change otherwise.
  timeout --signal=INT "$left" "$tool" mutants --dir "$tree" --in-place --package "$package" "${sources[@]}" "${options[@]}" \
    --output "$out/$area" --colors never "${unoptimized[@]}" "${tests[@]/#/-C=}" --minimum-test-timeout 30 \
    -- ${names:+-- "${names[@]}"} || status=$?
  # 2: some are not noticed; 3: some ran out of time, which is as good as noticed; 124: the time was up.
  case $status in 0 | 2 | 3) ;; 124) [ -n "$minutes" ] || exit 1 ;; *) exit "$status" ;; esac
  processors
  took=$((seconds - began))
  results=$out/$area/mutants.out
  # Before the first of them there may be no list.
  touch "$results"/{caught,missed,timeout,unviable}.txt
  # Without places, which move: a line of the list is `path: what was replaced by what`.
  sed -E 's/^([^:]*):[0-9]+:[0-9]+: /\1: /' "$results/missed.txt" | sort -u >"$out/$area/missed"
  sed -E '/^#/d; /^$/d' tests/mutants.txt | sort -u >"$out/$area/explained"
  count() { wc -l <"$results/$1.txt"; }
  echo "$area: of $(wc -l <"$out/$area.list") changes $(count caught) noticed, $(count timeout) without end, $(count missed) not noticed, $(count unviable) do not compile; $((took / 60)) min $((took % 60)) s of processors"
  if sort "$out/$area.list" | comm -23 - <(sort "$results"/{caught,missed,timeout,unviable}.txt) | grep . >"$out/$area/left-out"; then
    echo "No time was left for:"
    cat "$out/$area/left-out"
    left_out=$((left_out + $(wc -l <"$out/$area/left-out")))
  fi
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
[ "$left_out" = 0 ] || echo "$left_out left out"
exit $failed
