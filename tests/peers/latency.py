"""Latency of a model, one image at a time and one thread: `nae-infer bench` and Python's onnxruntime, in turns.

    cargo build --release -p nae-infer-cli
    pip install -r tests/peers/requirements.txt
    python tests/peers/latency.py target/release/nae-infer MODEL.onnx [--rounds 5] [--seconds 2]

Both start from the network's input and end with the energy. The table has the least median latency of each and its ratio
to onnxruntime's.
"""

import argparse
import json
import statistics
import subprocess
import time

import numpy
import onnxruntime

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program", help="the built nae-infer")
parser.add_argument("model", help="an ONNX model")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--seconds", type=float, default=2)
arguments = parser.parse_args()

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(arguments.model, options, providers=["CPUExecutionProvider"])
shape = [1, *session.get_inputs()[0].shape[1:]]
image = numpy.random.default_rng(0).random(shape, dtype=numpy.float32)


def peer():
    times, end = [], time.perf_counter() + arguments.seconds
    while time.perf_counter() < end:
        begun = time.perf_counter()
        session.run(["energy"], {"image": image})
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


medians = {"onnxruntime": []}
for _ in range(arguments.rounds):
    medians["onnxruntime"].append(peer())
    command = [arguments.program, "bench", arguments.model, "--json", "--seconds", str(arguments.seconds)]
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        measured = json.loads(line)
        if "latency_median" in measured:
            medians.setdefault(measured["backend"], []).append(measured["latency_median"])
print(f"{'backend':<14}{'latency':>12}{'ratio':>8}")
for name, values in medians.items():
    print(f"{name:<14}{1e3 * min(values):>9.3f} ms{min(values) / min(medians['onnxruntime']):>8.2f}")
