"""The camera service with the digits model, for as long as a client is tried on it."""

import contextlib
import pathlib
import subprocess
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
MODEL = "digits"
MARK = "the page is at http://"
# Of the 15 images: how many of the model's 162 calibration energies are as large as the image's, and one, of 163.
P_VALUES = np.float32([124, 1, 69, 79, 44, 7, 163, 61, 108, 49, 1, 1, 1, 1, 1]) / np.float32(163)


@contextlib.contextmanager
def running(program):
    """Its address, as HOST:PORT."""
    with tempfile.TemporaryDirectory() as state:
        command = [program, "serve", "--listen", "127.0.0.1:0", "--state", state, "--threads", "1"]
        command += ["--model", ROOT / f"models/{MODEL}/{MODEL}.onnx"]
        # Its few lines fit into the pipe: nobody needs to read on.
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                lines = []
                for line in process.stderr:
                    lines.append(line)
                    if MARK in line:
                        break
                else:
                    raise SystemExit("the service did not start:\n" + "".join(lines))
                yield line.split(MARK)[1].split("/")[0]
            finally:
                process.kill()


def images():
    """Images as the network takes them, 15, and their energies by another runtime."""
    return np.load(ROOT / "tests/vectors/images.npy"), np.load(ROOT / "tests/vectors/energies.npy")


def same(found, expected):
    """Whether energies agree; the runtimes differ by their order of sums."""
    assert found.dtype == np.float32 and found.shape == expected.shape, (found.dtype, found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def same_verdicts(p_values, anomalies):
    """Whether verdicts are the model's, at its rate of 1%, which 2 of 163 are above."""
    assert (p_values.dtype, anomalies.dtype) == (np.float32, bool), (p_values.dtype, anomalies.dtype)
    np.testing.assert_array_equal(p_values, P_VALUES)
    np.testing.assert_array_equal(anomalies, P_VALUES <= 0.01)
