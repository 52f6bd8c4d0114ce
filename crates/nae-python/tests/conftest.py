"""Data and models that the tests share: the repository's digits, its model of them, and two small ones trained here."""

import gzip
import os
import re
import shutil
import subprocess
from pathlib import Path

import nae_edge
import numpy as np
import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def digits():
    """Images uint8 [1797, 8, 8] of values 0 to 255, and which digit each is."""
    with gzip.open(ROOT / "data/digits-8x8/digits.csv.gz", "rt") as file:
        rows = np.loadtxt(file, delimiter=",")
    return np.round(rows[:, :64].reshape(-1, 8, 8) * 255 / 16).astype(np.uint8), rows[:, 64].astype(int)


@pytest.fixture(scope="session")
def model():
    return ROOT / "models/digits/digits.onnx"


@pytest.fixture(scope="session")
def detector(model):
    return nae_edge.Detector.open(model)


@pytest.fixture(scope="session")
def vectors():
    """Images float32 [15, 1, 16, 16] and their energies by the repository's model, from the Rust tests."""
    return np.load(ROOT / "tests/vectors/images.npy"), np.load(ROOT / "tests/vectors/energies.npy")


@pytest.fixture(scope="session")
def mnist(tmp_path_factory):
    """A folder of data sets with one of MNIST's form in it: stripes whose width is the label."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "mnist").mkdir()
    for name, count in (("train", 400), ("t10k", 60)):
        image, at = np.meshgrid(np.arange(count), np.arange(784), indexing="ij")
        pixels = np.where((at % 28 + image) // (image % 10 + 1) % 2 == 0, 255, 0).astype(np.uint8)
        for kind, axes, values in (
            ("images-idx3", (count, 28, 28), pixels),
            ("labels-idx1", (count,), (np.arange(count) % 10).astype(np.uint8)),
        ):
            header = bytes([0, 0, 8, len(axes)]) + b"".join(axis.to_bytes(4, "big") for axis in axes)
            (folder / f"mnist/{name}-{kind}-ubyte").write_bytes(header + values.tobytes())
    return folder


@pytest.fixture(scope="session")
def readings():
    """Rows [300, 4] whose columns depend on each other."""
    noise = np.random.default_rng(3).normal(size=(300, 4))
    noise[:, 2] = noise[:, 0] * noise[:, 1] + 0.1 * noise[:, 2]
    return noise


@pytest.fixture(scope="session")
def table_model(readings):
    with pytest.warns(UserWarning):
        return nae_edge.train(readings, pretraining_updates=60, updates=4, progress=False)


@pytest.fixture(scope="session")
def program():
    """Runs a program of the repository, `nae-infer` or `nae-train`, and gives what it prints as its error."""
    folder = Path(os.environ.get("NAE_PROGRAMS", ""))

    def error_of(name, *arguments):
        path = shutil.which(name, path=os.fspath(folder))
        if not os.environ.get("NAE_PROGRAMS") or path is None:
            pytest.skip(f"skipped: {name} is not built (NAE_PROGRAMS says where)")
        done = subprocess.run([path, *map(os.fspath, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        return done.stderr.strip().removeprefix("error: ")

    return error_of


@pytest.fixture(scope="session")
def snippets():
    """Runs the Python of a document, its blocks in order and with the same `names`. Of what takes long or is elsewhere, `instead`
    has what is run in its place; all of it has to be there."""

    def run(document, names, instead=None, blocks=slice(None)):
        text = (ROOT / document).read_text()
        found = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[blocks]
        assert found, f"{document}: no Python"
        code = "\n".join(found)
        for part, other in (instead or {}).items():
            assert part in code, f"{document}: not there any more: {part}"
            code = code.replace(part, other)
        exec(compile(code, document, "exec"), names)  # noqa: S102
        return names

    return run
