"""What documents show of the package runs as it stands there, with less training. `test_ray.py` has what needs Ray."""

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")

SHORT = {"time_budget=60": "pretraining_updates=30, updates=4, progress=False"}


@pytest.fixture
def place(root, tmp_path, monkeypatch):
    """A folder with the repository's models in it, and nothing else."""
    (tmp_path / "models").symlink_to(root / "models")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def normal(digits):
    return digits[0][:120]


def test_python_md(place, snippets, digits, normal):
    pytest.importorskip("sklearn")
    names = snippets(
        "docs/python.md",
        {"images": digits[0][:7], "normal": normal, "new": digits[0][-9:]},
        SHORT | {"NormalizedAutoencoderDetector(": "NormalizedAutoencoderDetector(pretraining_updates=30, updates=4, "},
    )
    scores, strict = names["scores"], names["strict"]
    assert scores.energies.dtype == np.float32 and scores.verdicts.dtype == bool
    shapes = [getattr(scores, name).shape for name in ("energies", "p_values", "verdicts", "latents", "heat_maps")]
    assert shapes == [(7,), (7,), (7,), (7, 32), (7, 16, 16)]
    assert strict.false_positive_rate == 0.01
    # The callback ends a run by what it is called with.
    looks = [{"phase": "pretraining"}, {"phase": "look", "selection_auroc": 0.9}, {"phase": "look", "selection_auroc": 0.995}]
    assert [names["watch"](look) for look in looks] == [None, None, False]
    assert (place / "model.onnx").exists()


@pytest.mark.parametrize("document", ["README.md", "crates/nae-python/README.md"])
def test_readme(place, snippets, digits, normal, document):
    import nae_edge

    new = digits[0][-9:]
    names = snippets(document, {"nae_edge": nae_edge, "normal": normal, "new": new}, SHORT)
    assert len(names["scores"].energies) == 9


def test_spark(place, snippets, digits, model, detector):
    """What a task of Spark's runs, without Spark."""
    pd = pytest.importorskip("pandas")
    pgm = [b"P5 8 8 255\n" + image.tobytes() for image in digits[0][:4]]
    frames = [pd.DataFrame({"id": [7, 8], "content": pgm[:2]}), pd.DataFrame({"id": [9, 3], "content": pgm[2:]})]

    class Images:
        def mapInPandas(self, function, schema):
            self.found, self.schema = pd.concat(function(iter(frames))), schema

    names = {"pd": pd, "model": model.read_bytes(), "images": Images()}
    images = snippets("docs/cluster.md", names, blocks=slice(-1, None))["images"]
    assert [part.split()[0] for part in images.schema.split(", ")] == list(images.found)
    assert list(images.found["id"]) == [7, 8, 9, 3]
    np.testing.assert_array_equal(images.found["energy"], detector.score(pgm).energies)
