"""What scoring from Python costs beside the same library in Rust: batches of 256, in turns, one thread each.

    cargo build --release -p nae-python --example batches
    python tests/peers/python_overhead.py target/release/examples/batches models/digits/digits.onnx

Prints seconds of `import nae_edge`, then for float32 [N, C, H, W] of the network's size (not copied) and uint8 [N, 20,
20] (prepared each time) the median times of a batch and the median of the ratios of neighbouring runs. The wheel has to
be installed, built by the same profile as the program.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BATCH = 256
TURNS = 300


def import_seconds():
    """The least of several: a fresh interpreter each, with and without numpy's share."""
    def least(code):
        return min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
                   for _ in range(9))
    timed = "import time; {}t = time.perf_counter(); import nae_edge; print(time.perf_counter() - t)"
    return least(timed.format("")), least(timed.format("import numpy; "))


def main(program, model):
    import nae_edge

    whole, own = import_seconds()
    print(f"import nae_edge: {whole:.3f} s, {own:.3f} s of it after numpy's")
    detector = nae_edge.Detector.open(model, threads=1)
    shape = detector.input_shape
    random = np.random.default_rng(0)
    arrays = {
        f"float32 {[BATCH, *shape]}": random.random((BATCH, *shape), np.float32),
        f"uint8 {[BATCH, 20, 20]}": random.integers(0, 256, (BATCH, 20, 20), np.uint8),
    }
    for name, images in arrays.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "images.npy"
            np.save(file, images)
            rust = subprocess.Popen([program, model, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            pairs = []
            for turn in range(TURNS + 20):
                rust.stdin.write("\n")
                rust.stdin.flush()
                seconds, energies = map(float, rust.stdout.readline().split())
                started = time.perf_counter()
                scores = detector.score(images)
                found = time.perf_counter() - started
                assert np.isclose(scores.energies.sum(dtype=np.float64), energies, rtol=1e-6)
                # The first turns fetch memory.
                if turn >= 20:
                    pairs.append((found, seconds))
            rust.stdin.close()
            rust.wait()
        python, bare = (statistics.median(times) for times in zip(*pairs))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{name}: Python {1e3 * python:.2f} ms, Rust {1e3 * bare:.2f} ms, ratio {ratio:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
