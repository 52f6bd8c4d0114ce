"""No input ends the interpreter: whatever is given, scores come back or one of a few exceptions, and never a panic."""

import itertools

import nae_edge
import numpy as np
import pandas
import pytest
from nae_edge import Detector, _native

# `RuntimeError` is for a backend that fails on a damaged model.
EXPECTED = (ValueError, TypeError, OSError, OverflowError, RuntimeError)
TYPES = ["u1", "i1", "u2", "i8", "f2", "f4", "f8", ">f4", ">f8", "c8", "?", "O", "U3", "M8[s]", [("a", "f4")]]

pytestmark = pytest.mark.filterwarnings("ignore")


def attempt(work):
    """Runs `work`; a panic says that it is a bug, and any other exception would be a surprise."""
    try:
        work()
    except EXPECTED as error:
        assert "a bug" not in str(error)


def arrays(random, count):
    for _ in range(count):
        shape = tuple(random.choice([0, 1, 2, 3, 4, 5, 8, 16, 17, 40], size=random.integers(0, 6)))
        if np.prod(shape, dtype=float) > 50_000:
            continue
        values = random.choice([0, 1, 0.5, 255, -1, 1e30, np.nan, np.inf], p=[0.4, 0.2, 0.3, *[0.02] * 5], size=shape)
        with np.errstate(all="ignore"):
            try:
                array = np.asarray(values).astype(random.choice(np.array(TYPES, object)))
            except (ValueError, TypeError):
                continue
        turn = random.integers(4)
        yield [array, array[..., ::-1] if array.ndim else array, array.T, np.asfortranarray(array)][turn]


def test_arrays_of_any_kind(detector, table_model, root):
    random = np.random.default_rng(11)
    models = [detector, table_model.detector, Detector.open(root / "models/digits/digits-int8.nae")]
    layouts = [None, None, "HW", "HWC", "CHW", "NHW", "NHWC", "NCHW", "", "N", "NNNN", "ÄÖ", "CWH\0"]
    for array, model in zip(arrays(random, 1500), itertools.cycle(models)):
        attempt(lambda: model.score(array, layout=random.choice(np.array(layouts, object))))
        attempt(lambda: model.score([array, array]))
        attempt(lambda: model.score(pandas.DataFrame(array)))


def test_the_extension_itself(detector, table_model, model):
    random = np.random.default_rng(12)
    options = {"threads": 1, "backend": None, "false_positive_rate": None, "threshold": None}
    natives = [detector._native, table_model.detector._native]
    keep = {"latents": True, "heat_maps": True, "errors": True}
    # Such calls are right: it is the arrays that are of any kind.
    assert len(natives[0].score_images([np.zeros((2, 8, 8), np.uint8)], False, None, keep)["energies"]) == 2
    for array, native in zip(arrays(random, 600), itertools.cycle(natives)):
        attempt(lambda: native.score_images([array], True, None, keep))
        attempt(lambda: native.score_images([array], False, None, keep, {0: "no image", 7: "no image"}))
        attempt(lambda: native.score_matrix(array, ["a", "column 1"], keep))
        attempt(lambda: native.score_columns(["column 1", "b"], [array, [None]], keep))
        attempt(lambda: _native.image_axes(array.shape, "NCHW"))
    # Bytes that are nowhere aligned.
    shifted = np.frombuffer(bytes(4 * 256 + 1), np.uint8)[1:].view("f4").reshape(1, 1, 16, 16)
    attempt(lambda: natives[0].score_images([shifted], False, None, keep))
    for wrong in [None, {**options, "threads": -1}, {**options, "threads": "many"}, {**options, "threshold": "x"}]:
        attempt(lambda: _native.Detector.open(model, wrong))
    for shape in [(2**62, 2**62), (2**63, 1, 1, 1), (-1, 2)]:
        attempt(lambda: _native.image_axes(shape, None))


def test_model_files_of_any_kind(model, root):
    random = np.random.default_rng(13)
    for path in (model, root / "models/digits/digits.nae"):
        whole = np.frombuffer(path.read_bytes(), np.uint8)
        for _ in range(60):
            damaged = whole.copy()
            damaged[random.integers(len(damaged), size=random.integers(1, 20))] = random.integers(256)
            damaged = damaged[: random.integers(len(damaged))] if random.random() < 0.3 else damaged

            def use(data=damaged.tobytes()):
                found = Detector.from_bytes(data, threads=1)
                found.score(np.zeros((2, *found.input_shape), np.float32), layout="NCHW")

            attempt(use)


def test_arguments_of_any_kind(detector, model, readings):
    values = [None, 0, -1, 1.5, float("nan"), float("inf"), 2**70, "", "a\0b", b"x", [], [[]], {}, object(), readings]
    for value in values:
        attempt(lambda: Detector.open(value))
        attempt(lambda: Detector.from_bytes(value))
        attempt(lambda: Detector.open(model, threads=value))
        attempt(lambda: Detector.open(model, backend=value))
        attempt(lambda: Detector.open(model, threshold=value))
        attempt(lambda: Detector.open(model, false_positive_rate=value))
        attempt(lambda: detector.with_false_positive_rate(value))
        attempt(lambda: detector.score(value))
        attempt(lambda: detector.score([value, value]))
    names = ["seed", "time_budget", "updates", "fit", "tile", "stride", "top_k", "features", "feature_outputs"]
    names += ["missing", "window", "window_stride", "held_out", "confidence", "form", "strict", "threads", "outliers", "preset"]
    for name, value in itertools.product(names, values):
        arguments = {"pretraining_updates": 1, "updates": 1, "progress": False, name: value}
        if name == "time_budget":
            arguments |= {"pretraining_updates": None, "updates": None}
        # What is accepted is stopped at once.
        attempt(lambda: nae_edge.train(readings[:60], callback=lambda _: False, **arguments))
