#!/usr/bin/env bash
# Builds the wheel of crates/nae-python, installs it into an environment of its own with its test requirements, and runs its
# tests there: pytest, scikit-learn's checks of estimators and the notebook among them.
#
#   tests/python/wheel.sh [ARGUMENT …]     arguments are for pytest
#   tests/python/wheel.sh --environment    makes the environment only, where it is not there or the requirements have changed
#
# NAE_PROFILE=release builds what a user gets; the tests take the profile of the other tests, dev, and of its programs in
# CARGO_TARGET_DIR (or target) those that are built: messages are compared with theirs.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
profile=${NAE_PROFILE:-dev}
folder=$target/python
mkdir -p "$folder"
tests/python/environment.sh "$folder/venv" crates/nae-python/tests/requirements.txt
[ "${1:-}" != --environment ] || exit 0
# What Python compiles is kept, for every process of the tests compiles it otherwise, but not beside the sources.
export PATH="$folder/venv/bin:$PATH" PYTHONPYCACHEPREFIX="$folder/pycache"
unset PYTHONDONTWRITEBYTECODE
# Beside the tests of the workspace, whose dependencies are built: with their features, none is built again.
features=()
[ "$profile" != dev ] || features=(--features as-in-tests)
rm -rf "$folder/wheels"
maturin build --locked --profile "$profile" "${features[@]}" -m crates/nae-python/Cargo.toml -i python -o "$folder/wheels" \
  >"$folder/build.log" 2>&1 || { tail -n 100 "$folder/build.log"; exit 1; }
# In the full run everything but the module and its bindings is there: else features have drifted apart, and CI builds burn twice.
if [ -n "${NAE_EVERY_RUNTIME:-}" ] && grep -E '^ *Compiling ' "$folder/build.log" | grep -vE ' (nae-python|pyo3[a-z-]*|numpy) '; then
  echo "rebuilt for the wheel: give what they depend on, in crates/nae-python's feature as-in-tests, its features of the tests" >&2
  exit 1
fi
pip install -q --disable-pip-version-check --no-deps --force-reinstall "$folder"/wheels/nae_edge-*.whl
ls -l "$folder/wheels" | awk 'NF > 2 { print $NF ": " $5 " bytes" }'

programs=$target/$([ "$profile" = dev ] && echo debug || echo "$profile")
cd crates/nae-python/tests
# Not from the source folder: the package that is installed is tested.
NAE_PROGRAMS=$programs python -P -m pytest -q -p no:cacheprovider "$@" .
