#!/usr/bin/env bash
# The paper's MNIST table on a graphics card, at the paper's scale: in pieces of under ten minutes, each of which goes on
# where the one before was broken off; and what a step takes, beside PyTorch on the same card.
#
#   tests/gpu/paper.sh DATA [DEVICE] [CELLS] [SEEDS]
#   tests/gpu/paper.sh ~/data wgpu digit-1,digit-9 1
#
# DATA has the folder mnist. DEVICE is what `nae-train devices` lists. Leaves models/results/mnist-holdout-DEVICE.json, and
# steps, seconds an epoch and the card's utilisation in runs/gpu. PyTorch is measured where `python3 -c 'import torch'` works
# and sees the card.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;; esac
[ $# -ge 1 ] || { sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//'; exit 2; }
cd "$(dirname "$0")/../.."
data=$1 device=${2:-wgpu} cells=${3:-digit-1,digit-9} seeds=${4:-1}
feature=${device%%:*}
out=runs/gpu
mkdir -p "$out"

cargo build --locked --release -p nae-train-cli --features "$feature"
train=${CARGO_TARGET_DIR:-target}/release/nae-train
"$train" devices | tee "$out/devices.txt"

steps=$(cargo bench --locked -p nae-train --features "$feature" --bench steps --no-run 2>&1 | sed -n 's/.*(\(.*steps-[^)]*\)).*/\1/p')
if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  python3 tests/peers/steps.py "$steps" --device "$device" --torch-device cuda | tee "$out/steps.txt"
else
  printf 'visible\nlatent\nupdate\nvisible\nlatent\nupdate\n' | "$steps" --serve conv28 --device "$device" | tee "$out/steps.txt"
fi

if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=timestamp,utilization.gpu,memory.used --format=csv -l 10 >"$out/utilisation.csv" &
  trap 'kill %1' EXIT
fi
# 130: interrupted, with a state to go on from.
status=130
while [ "$status" = 130 ]; do
  status=0
  timeout -s INT 580 "$train" reproduce mnist-holdout --scale paper --device "$device" --cells "$cells" --seeds "$seeds" \
    --data "$data" --out "$out/mnist-holdout" || status=$?
  [ "$status" = 124 ] && status=130
done
[ "$status" = 0 ]

python3 - "$out"/mnist-holdout/*/metrics.jsonl <<'E2'
# An epoch is 380 updates of 128 images; the paper's takes 600 s on a V100.
import json
import sys

for path in sys.argv[1:]:
    looks = [line for line in map(json.loads, open(path)) if line["kind"] == "look"]
    first, last = looks[0], looks[-1]
    if last["update"] > first["update"]:
        seconds = (last["seconds"] - first["seconds"]) / (last["update"] - first["update"]) * 380
        print(f"{path}: {seconds:.0f} s an epoch")
E2
cp "$out/mnist-holdout/result.json" "models/results/mnist-holdout-${device//:/-}.json"
