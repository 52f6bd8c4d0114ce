#!/usr/bin/env bash
# Builds the wheel of crates/nae-python, installs it into a fresh environment with its test requirements, and runs its tests
# there: pytest, scikit-learn's checks of estimators and the notebook among them.
#
#   tests/python/wheel.sh [ARGUMENT …]     arguments are for pytest
#
# NAE_PROFILE=release builds what a user gets; the tests take the profile of the other tests, dev, and of its programs in
# CARGO_TARGET_DIR (or target) those that are built: messages are compared with theirs.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
profile=${NAE_PROFILE:-dev}
folder=$target/python
rm -rf "$folder"
mkdir -p "$folder"

python3 -m venv "$folder/venv"
export PATH="$folder/venv/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
pip install -q --disable-pip-version-check -r crates/nae-python/tests/requirements.txt
# Beside the tests of the workspace, whose dependencies are built: with their features, none is built again.
features=()
[ "$profile" != dev ] || features=(--features as-in-tests)
maturin build --quiet --locked --profile "$profile" "${features[@]}" -m crates/nae-python/Cargo.toml -i python -o "$folder/wheels"
pip install -q --disable-pip-version-check --no-deps "$folder"/wheels/nae_edge-*.whl
ls -l "$folder/wheels" | awk 'NF > 2 { print $NF ": " $5 " bytes" }'

programs=$target/$([ "$profile" = dev ] && echo debug || echo "$profile")
cd crates/nae-python/tests
# Not from the source folder: the package that is installed is tested.
NAE_PROGRAMS=$programs python -P -m pytest -q -p no:cacheprovider "$@" .
