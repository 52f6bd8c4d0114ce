"""A model of features, with its frozen network, by nae-simd and by ONNX Runtime, in turns on the same machine, one thread
each.

    cargo build --release -p nae-onnx --example features
    pip install numpy onnx onnxruntime
    python models/backbones/efficientnet_lite0.py 160 backbone.onnx
    nae-train --data DIR --features backbone.onnx --export model.onnx
    python tests/peers/features.py TARGET/release/examples/features model.onnx [--rounds 200]

Prints the least milliseconds of each, their ratio, ours to ONNX Runtime's, and the largest difference of the outputs,
relative to the largest value. The machine may be busy: single times say nothing.
"""

import argparse
import subprocess
import time

import numpy as np
import onnxruntime

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program", help="the built example `features`")
parser.add_argument("model", help="a model of features, as nae-train --features exports it")
parser.add_argument("--rounds", type=int, default=200)
arguments = parser.parse_args()

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(arguments.model, options, providers=["CPUExecutionProvider"])
names = ["features", "reconstruction"]
shape = session.get_inputs()[0].shape
image = np.random.default_rng(0).random([1, *shape[1:]], dtype=np.float32)

ours = subprocess.Popen(
    [arguments.program, arguments.model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
)
ours.stdin.write(image.astype("<f4").tobytes())
times = {"nae-simd": [], "ONNX Runtime": []}
for _ in range(arguments.rounds):
    ours.stdin.write(b"\n")
    ours.stdin.flush()
    line = ours.stdout.readline()
    if not line:
        raise SystemExit(ours.stderr.read().decode(errors="replace"))
    times["nae-simd"].append(float(line))
    start = time.perf_counter()
    expected = session.run(names, {session.get_inputs()[0].name: image})
    times["ONNX Runtime"].append(1e3 * (time.perf_counter() - start))
ours.stdin.close()
found = np.frombuffer(ours.stderr.read(), dtype="<f4")
expected = np.concatenate([output.ravel() for output in expected])
least = {name: min(each) for name, each in times.items()}
for name, milliseconds in least.items():
    print(f"{name:12}  {milliseconds:8.3f} ms")
print(f"ratio         {least['nae-simd'] / least['ONNX Runtime']:8.2f}")
print(f"difference    {np.abs(found - expected).max() / np.abs(expected).max():.1e}")
