"""Requests per second of `nae-infer serve` and of a FastAPI + onnxruntime service, in turns on the same machine.

    cargo build --release -p nae-infer-cli
    apt-get install wrk; pip install -r tests/peers/requirements.txt
    python tests/peers/service.py target/release/nae-infer models/digits/digits.onnx [--rounds 5] [--seconds 10]

Each round sends PNG images of 28 × 28 to `POST /score` of one service, then of the other, by `wrk` with 64 connections.
The peer decodes with Pillow, resizes, runs the model with onnxruntime and compares with the threshold: two uvicorn
workers, one thread each. The table has the best and the median of each, and their ratio.
"""

import argparse
import io
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy
from PIL import Image

PEER = '''
import io, os
import numpy, onnxruntime
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from PIL import Image

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(os.environ["MODEL"], options, providers=["CPUExecutionProvider"])
meta = session.get_modelmeta().custom_metadata_map
threshold = float(meta["nae.calibration.threshold"])
_, channels, height, width = session.get_inputs()[0].shape
app = FastAPI()

@app.post("/score")
async def score(request: Request):
    image = Image.open(io.BytesIO(await request.body())).convert("L")
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    pixels = numpy.asarray(image, dtype=numpy.float32).reshape(1, 1, height, width) / 255
    energy = float(session.run(["energy"], {"image": pixels})[0][0])
    return JSONResponse({"energy": energy, "verdict": "anomaly" if energy > threshold else "normal"})
'''

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program", help="the built nae-infer")
parser.add_argument("model", help="an ONNX model of grey images")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--seconds", type=int, default=10)
parser.add_argument("--connections", type=int, default=64)
parser.add_argument("--backend", help="of nae-infer: tract, native, ort or auto", default="tract")
arguments = parser.parse_args()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait(port, body):
    for _ in range(300):
        try:
            return json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/score", data=body))
        except OSError:
            time.sleep(0.1)
    sys.exit("a service did not start")


def requests_per_second(port, script):
    command = ["wrk", "-t1", f"-c{arguments.connections}", f"-d{arguments.seconds}s", "-s", script]
    text = subprocess.run([*command, f"http://127.0.0.1:{port}/score"], check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in text:
        sys.exit(text)
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])


with tempfile.TemporaryDirectory() as folder:
    pixels = numpy.random.default_rng(0).integers(0, 256, (28, 28), dtype=numpy.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png")
    picture, script = os.path.join(folder, "image.png"), os.path.join(folder, "post.lua")
    open(picture, "wb").write(buffer.getvalue())
    open(script, "w").write(
        f'wrk.method = "POST"\nlocal f = io.open("{picture}", "rb")\nwrk.body = f:read("*a")\nf:close()\n'
        'wrk.headers["Content-Type"] = "image/png"\n'
    )
    open(os.path.join(folder, "peer.py"), "w").write(PEER)
    ports = {"nae-infer": free_port(), "FastAPI": free_port()}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    ours = [arguments.program, "serve", "--model", arguments.model, "--listen", f"127.0.0.1:{ports['nae-infer']}"]
    peer = [sys.executable, "-m", "uvicorn", "peer:app", "--port", str(ports["FastAPI"]), "--workers", "2"]
    environment = dict(os.environ, MODEL=os.path.abspath(arguments.model), OMP_NUM_THREADS="1")
    services = [
        subprocess.Popen([*ours, "--state", os.path.join(folder, "state"), "--threads", "2", "--backend", arguments.backend], **quiet),
        subprocess.Popen([*peer, "--log-level", "warning"], cwd=folder, env=environment, **quiet),
    ]
    try:
        for name, port in ports.items():
            print(name, wait(port, buffer.getvalue()))
        measured = {name: [] for name in ports}
        for _ in range(arguments.rounds):
            for name, port in ports.items():
                measured[name].append(requests_per_second(port, script))
    finally:
        for service in services:
            service.terminate()
    print(f"\n{'requests a second':<20}{'best':>10}{'median':>10}")
    for name, values in measured.items():
        print(f"{name:<20}{max(values):>10.0f}{statistics.median(values):>10.0f}")
    best, median = (
        of(measured["nae-infer"]) / of(measured["FastAPI"]) for of in (max, statistics.median)
    )
    print(f"{'ratio':<20}{best:>10.2f}{median:>10.2f}")
