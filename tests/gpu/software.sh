#!/usr/bin/env bash
# Training on a graphics card, tested on the driver that computes on the processor (Debian: mesa-vulkan-drivers): energies,
# gradients, updates, noise and chains equal the processor's, and short runs of every method are trained and exported.
#
#   tests/gpu/software.sh
#
# tests/run.sh leaves it out: burn with wgpu takes a quarter of an hour to build.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,7p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;; esac
cd "$(dirname "$0")/../.."

driver=$(find /usr/share/vulkan/icd.d -name 'lvp_icd*.json' 2>/dev/null | head -n 1)
if [ -z "$driver" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends mesa-vulkan-drivers libvulkan1
  driver=$(find /usr/share/vulkan/icd.d -name 'lvp_icd*.json' | head -n 1)
fi
[ -n "$driver" ] || { echo "Missing: mesa-vulkan-drivers and libvulkan1 (Debian)" >&2; exit 1; }
export VK_DRIVER_FILES=$driver

cargo test --locked -p nae-train --features wgpu --test devices -- --nocapture
cargo build --locked -p nae-train-cli --features wgpu
train=${CARGO_TARGET_DIR:-target}/debug/nae-train

"$train" devices
# Software is never taken silently.
if said=$("$train" --device wgpu --out /nowhere/run 2>&1); then
  echo "a software adapter was taken without being asked for" >&2
  exit 1
fi
grep -q 'wgpu:software to take it' <<<"$said" || { echo "$said" >&2; exit 1; }

# The digits, with few updates: trained there, exported, scored by the processor.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$train" presets digits | sed 's/^epochs = .*/epochs = 30/; s/^updates = .*/updates = 20/; s/^every = .*/every = 10/' >"$folder/short.toml"
for device in cpu wgpu:software; do
  "$train" --preset "$folder/short.toml" --device "$device" --engine burn --out "$folder/$device" \
    --export "$folder/$device.onnx" --json -q >"$folder/$device.json"
done
python3 - "$folder/cpu.json" "$folder/wgpu:software.json" <<'E2'
import json
import sys

rows = [json.load(open(path))["auroc"]["rows"] for path in sys.argv[1:]]
for processor, card in zip(*rows):
    print(f"{processor['outliers']:22} cpu {processor['nae']:.4f}   wgpu:software {card['nae']:.4f}")
    # Both round differently, for 30 epochs.
    assert abs(processor["autoencoder"] - card["autoencoder"]) < 0.05, "before NAE training"
E2

# Every other method, with tiny networks for six epochs. Models of the last three are not exported.
"$train" presets digits | sed 's/^epochs = .*/epochs = 6/; s/^width = .*/width = 4/' >"$folder/tiny.toml"
cat >>"$folder/tiny.toml" <<'E2'
[baselines]
vae = { samples = 2 }
igebm = { width = 4, steps = 2 }
mpdr = { steps = 2 }
glow = { steps = 2, hidden_channels = 4 }
pixelcnn = { blocks = 1, filters = 4 }
E2
for method in ae dae wae vae vqvae ganomaly igebm mpdr mahalanobis knn dagmm glow pixelcnn; do
  for device in cpu wgpu:software; do
    run=$folder/$method-$device
    case $method in dagmm | glow | pixelcnn) export=() ;; *) export=(--export "$run.onnx") ;; esac
    "$train" --preset "$folder/tiny.toml" --method "$method" --device "$device" --engine burn --out "$run" \
      "${export[@]}" --json -q >"$run.json"
  done
  python3 - "$method" "$folder/$method-cpu.json" "$folder/$method-wgpu:software.json" <<'E2'
import json
import sys

tables = [json.load(open(path))["auroc"]["rows"] for path in sys.argv[2:]]
for processor, card in zip(*tables):
    for column, figures in processor["figures"].items():
        pair = [row["figures"][column]["auroc"]["value"] for row in (processor, card)]
        print("{:28} {:22} cpu {:.4f}   wgpu:software {:.4f}".format(column, processor["outliers"], *pair))
        # Noise is drawn on the device that computes, so that methods with noise differ by it.
        assert abs(pair[0] - pair[1]) < 0.05, sys.argv[1]
E2
done
echo "All passed"
