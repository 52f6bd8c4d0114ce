#!/usr/bin/env bash
# Trains the detector of machine sounds and the plain autoencoder beside it, quantizes, and measures all of it, down to
# the energies of every window of every test clip under QEMU. Some ten minutes of two cores, and what tests/qemu.sh takes.
#
#   models/toycar/make.sh DATA OUT     DATA is the folder that has mlperf-tiny-ad01; models and runs go to OUT
#
# Needs numpy (tests/run.sh puts it into .venv; PYTHON names another) and what tests/qemu.sh needs.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,7p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
NAE_DATA=$(cd "$1" && pwd)
mkdir -p "$2"
NAE_TOYCAR=$(cd "$2" && pwd)
export NAE_DATA NAE_TOYCAR
cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}
command -v "$python" >/dev/null ||
  { echo "$python is missing: run tests/run.sh, or set PYTHON to a Python that has numpy" >&2; exit 1; }

"$python" models/toycar/prepare.py "$NAE_DATA/mlperf-tiny-ad01" "$NAE_TOYCAR"
cargo build --release --quiet --locked -p nae-train-cli
nae_train=${CARGO_TARGET_DIR:-$PWD/target}/release/nae-train
(
  cd "$NAE_TOYCAR"
  "$nae_train" --preset preset.toml --data train.csv --out run --export toycar.onnx
  "$nae_train" --preset preset.toml --method ae --data train.csv --out run-ae --export toycar-ae.onnx
  "$nae_train" deploy toycar-ae.onnx -o toycar-ae.nae
  "$nae_train" deploy toycar.onnx -o toycar.nae
  # The threshold is that of windows of clips that were not trained on.
  "$nae_train" deploy toycar.onnx --int8 --calibrate calibration.csv -o toycar-int8.nae
  "$nae_train" deploy "$NAE_DATA/mlperf-tiny-ad01/ad01_int8.tflite" -o ad01.nae
)
tests/qemu.sh
