"""A Ray cluster of two nodes on this machine: the same figures as here, also where a node is lost."""

import json
import logging
import time
from unittest.mock import create_autospec

import numpy as np
import pytest

ray = pytest.importorskip("ray")

import nae_edge  # noqa: E402
import nae_edge.ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from test_experiments import timeless  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

# Enough for these tests, also where little memory is shared.
STORE = {"object_store_memory": 200_000_000}
SHORT = {"pretraining.epochs": 4, "training.updates": 40, "stopping.every": 10}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes; those that are lost and come are of the tests that need them."""
    # A node that is lost is missed after two seconds, in place of Ray's half minute.
    health = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": health, **STORE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1, **STORE)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    yield cluster
    # Threads of Ray's go on to log into streams that pytest has closed.
    logging.raiseExceptions = False
    ray.shutdown()
    cluster.shutdown()


def column(dataset, name):
    return np.concatenate([batch[name] for batch in dataset.iter_batches(batch_format="numpy")])


def test_a_hundred_thousand_images_in_order(cluster, digits, model, detector):
    images = np.resize(digits[0], (100_000, 8, 8))
    # No two alike: an energy in another's place would be seen.
    images = np.clip(images + np.random.default_rng(0).integers(0, 60, images.shape), 0, 255).astype(np.uint8)
    dataset = nae_edge.ray.score(ray.data.from_numpy(images), model)
    expected = detector.score(images, latents=False, heat_maps=False)
    np.testing.assert_array_equal(column(dataset, "energy"), expected.energies)
    assert len(np.unique(expected.energies)) > 90_000


def test_forms_of_batches(digits, model, detector):
    """In this process: what Ray gives a batch as."""
    import pyarrow

    images = digits[0][:5]
    expected = detector.score(images)
    scorer = nae_edge.ray.Scorer(model, outputs=["energy", "p_value", "anomaly", "latent", "heat_map"])
    batch = scorer({"image": images, "label": digits[1][:5]})
    for name, values in (("energy", "energies"), ("p_value", "p_values"), ("anomaly", "verdicts"), ("latent", "latents")):
        np.testing.assert_array_equal(batch[name], getattr(expected, values))
    np.testing.assert_array_equal(batch["label"], digits[1][:5])
    table = scorer(pyarrow.table({"image": nested(images), "label": digits[1][:5]}))
    assert table.column_names == ["image", "label", "energy", "p_value", "anomaly", "latent", "heat_map"]
    np.testing.assert_array_equal(table["energy"].to_numpy(), expected.energies)
    np.testing.assert_array_equal(np.array(table["heat_map"].to_pylist(), np.float32), expected.heat_maps)
    # Of several sizes.
    sizes = np.empty(2, object)
    sizes[0], sizes[1] = images[0], np.kron(images[1], np.ones((2, 3), np.uint8))
    np.testing.assert_array_equal(scorer({"image": sizes})["energy"], detector.score(list(sizes)).energies)
    with pytest.raises(ValueError, match="column: expected image, or the only column, to have the images, found a, b"):
        scorer({"a": images, "b": images})
    with pytest.raises(ValueError, match="column: expected 'c' to have the images"):
        nae_edge.ray.Scorer(model, column="c")({"a": images})
    with pytest.raises(ValueError, match="batch: expected at least one column, found none"):
        scorer({})
    with pytest.raises(ValueError, match="outputs: expected some of energy, "):
        nae_edge.ray.Scorer(model, outputs=["energies"])


def test_a_folder_parquet_and_webdataset(cluster, digits, model, detector, tmp_path):
    import io
    import tarfile

    import pyarrow
    import pyarrow.parquet
    from PIL import Image

    images = digits[0][:40]
    expected = detector.score(images, latents=False, heat_maps=False).energies
    contents = []
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        (tmp_path / "images").mkdir()
        for index, image in enumerate(images):
            buffer = io.BytesIO()
            Image.fromarray(image).save(buffer, "png")
            contents.append(buffer.getvalue())
            (tmp_path / f"images/{index:03}.png").write_bytes(contents[-1])
            entry = tarfile.TarInfo(f"{index:03}.png")
            entry.size = len(contents[-1])
            tar.addfile(entry, io.BytesIO(contents[-1]))
    pyarrow.parquet.write_table(pyarrow.table({"content": contents, "id": list(range(40))}), tmp_path / "images.parquet")
    folder = nae_edge.ray.score(ray.data.read_images(tmp_path / "images"), model, batch_size=16)
    np.testing.assert_array_equal(column(folder, "energy"), expected)
    parquet = ray.data.read_parquet(tmp_path / "images.parquet")
    parquet = nae_edge.ray.score(parquet, model, column="content", batch_format="pyarrow", batch_size=16)
    np.testing.assert_array_equal(column(parquet, "energy"), expected)
    shards = ray.data.read_webdataset(str(tmp_path / "shard.tar"))
    np.testing.assert_array_equal(column(nae_edge.ray.score(shards, model, column="png"), "energy"), expected)


def test_a_table(cluster, table_model, readings):
    import pandas

    frame = pandas.DataFrame(readings, columns=[f"column {number}" for number in range(1, 5)])
    dataset = nae_edge.ray.score(ray.data.from_pandas(frame), table_model.detector.to_bytes(), batch_size=64)
    np.testing.assert_array_equal(column(dataset, "energy"), table_model.detector.score(frame).energies)


def test_cells_are_made_as_here(cluster, mnist, root, tmp_path):
    """Models that start from another's network among them."""
    asked = {
        "scale": "smoke",
        "cells": ["pretrained-9", "cold"],
        "seeds": [0, 3],
        "data": mnist,
        "settings": root / "nae-train/cli/tests/program/starts.toml",
    }
    here = nae_edge.reproduce("mnist-holdout", folder=tmp_path / "here", progress=False, **asked)
    there = nae_edge.ray.reproduce("mnist-holdout", shared=tmp_path / "shared", **asked)
    assert timeless(there) == timeless(here) and len(there.figures["models"]) == 3
    with pytest.raises(ValueError, match="cold-small starts from the network of pretrained-9-small, which is neither"):
        nae_edge.ray.reproduce("mnist-holdout", shared=tmp_path / "shared", **{**asked, "cells": ["cold-small"]})


def test_a_lost_node_loses_nothing(cluster, tmp_path):
    """Its tasks go on elsewhere, from their last states, to the models of an undisturbed machine."""
    run = {"preset": "digits", "changes": {**SHORT, "training.updates": 80}, "checkpoint_every": 0.1}
    lost = cluster.add_node(num_cpus=2, resources={"spare": 2}, **STORE)
    shared = tmp_path / "shared"

    @ray.remote(num_cpus=0)
    def drive():
        options = {"resources": {"spare": 1}}
        return nae_edge.ray.train_seeds(seeds=[0, 5], shared=shared, ray_options=options, **run).figures

    driver = drive.remote()
    metrics = shared / "0/metrics.jsonl"

    def normalizing(path):
        lines = path.read_text().splitlines()[:-1] if path.exists() else []
        return [line for line in map(json.loads, lines) if line["kind"] == "step" and line["phase"] == "normalizing"]

    deadline = time.monotonic() + 120
    while len(normalizing(metrics)) < 10:
        assert time.monotonic() < deadline, "the run does not begin"
        time.sleep(0.1)
    cluster.remove_node(lost, allow_graceful=False)
    before = normalizing(metrics)
    assert len(before) < 80 and not (shared / "0/model.onnx").exists()
    cluster.add_node(num_cpus=2, resources={"spare": 2}, **STORE)
    found = ray.get(driver, timeout=180)

    after = normalizing(metrics)
    assert [line["step"] for line in after] == list(range(1, 81)), "no update twice, none left out"
    assert after[:8] == before[:8], "continued, not started again"
    assert found["seeds"] == [0, 5]
    for seed in (0, 5):
        alone = nae_edge.train(seed=seed, progress=False, **run)
        assert (shared / str(seed) / "model.onnx").read_bytes() == alone.detector.to_bytes()
        made = next(one for one in found["runs"] if one["seed"] == seed)
        assert made["auroc"] == alone.report.figures["auroc"]


def test_settings_are_tuned_by_signals_without_labels(cluster, tmp_path):
    from ray import tune

    trial = nae_edge.ray.trainable(preset="digits", changes=SHORT)
    scheduler = tune.schedulers.ASHAScheduler(metric="validation_energy", mode="min", grace_period=1, max_t=4)
    tuner = tune.Tuner(
        tune.with_resources(trial, {"cpu": 1}),
        param_space={"training.learning_rate": tune.grid_search([1e-5, 1e-3]), "seed": 1},
        tune_config=tune.TuneConfig(scheduler=scheduler),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )
    results = tuner.fit()
    assert not results.errors
    for result in results:
        columns = set(result.metrics_dataframe.columns)
        assert {"validation_energy", "selection_auroc", "update"} <= columns
        assert not any("digit" in name or "chimera" in name or "half" in name for name in columns)
    assert results.get_best_result("validation_energy", "min").config["seed"] == 1
    with pytest.raises(TypeError, match="outliers: settings are chosen without it"):
        nae_edge.ray.trainable(preset="digits", outliers="bad")


def test_the_document_gives_arguments_that_there_are(snippets, monkeypatch):
    """docs/cluster.md calls the functions by their signatures only: what they do is tested above."""
    from ray import tune

    functions = [(nae_edge.ray, name) for name in ("score", "train_seeds", "reproduce")]
    for module, name in [*functions, (ray.data, "read_images"), (tune.Tuner, "fit")]:
        monkeypatch.setattr(module, name, create_autospec(getattr(module, name)))
    names = snippets("docs/cluster.md", {}, blocks=slice(0, 2))
    assert nae_edge.ray.score.called and nae_edge.ray.train_seeds.called and tune.Tuner.fit.called
    assert names["table"] is nae_edge.ray.reproduce.return_value and callable(names["trial"])


def test_a_seed_of_all_trials(monkeypatch):
    """It is that of a trial whose configuration has none."""
    asked = []
    monkeypatch.setattr(nae_edge.ray, "train", lambda data, **options: asked.append(options))
    nae_edge.ray.trainable(preset="digits", seed=3)({"training.updates": 2})
    nae_edge.ray.trainable(preset="digits", seed=3)({"training.updates": 2, "seed": 4})
    nae_edge.ray.trainable(preset="digits")({"training.updates": 2})
    assert [options["seed"] for options in asked] == [3, 4, None]
    assert all(options["changes"] == {"training.updates": 2} for options in asked)
    with pytest.raises(TypeError, match="seed: expected a whole number, 0 or more, found 'a'"):
        nae_edge.ray.trainable(preset="digits", seed="a")


def test_what_cannot_be_shared_out_is_said(tmp_path, readings):
    with pytest.raises(TypeError, match="seed: it is given to each task"):
        nae_edge.ray.train_seeds(readings, seeds=2, shared=tmp_path, seed=1)
    with pytest.raises(ValueError, match="a time budget gives each machine another schedule"):
        nae_edge.ray.train_seeds(readings, seeds=2, shared=tmp_path, time_budget=60)
    few = "at least one seed"
    for seeds, problem in (([1, 1], "each seed once, found 1 several times"), ([], few), (0, few)):
        with pytest.raises(ValueError, match=f"^seeds: expected {problem}"):
            nae_edge.ray.train_seeds(readings, seeds=seeds, shared=tmp_path, pretraining_updates=5, updates=2)
    with pytest.raises(ValueError, match="^layout: it is for arrays of images"):
        nae_edge.ray.train_seeds(readings, seeds=2, shared=tmp_path, pretraining_updates=5, updates=2, layout="HW")
    with pytest.raises(ValueError, match="^shared: expected a path, found an empty text"):
        nae_edge.ray.train_seeds(readings, seeds=2, shared="", pretraining_updates=5, updates=2)
    with pytest.raises(ValueError, match="^shared: expected a path, found an empty text"):
        nae_edge.ray.reproduce("mnist-holdout", shared="")
    assert not any(tmp_path.iterdir())


def test_models_of_another_call_are_not_returned(readings, tmp_path):
    """Not by the names of their folders alone: data and options have to be the same."""
    asked = {"seeds": [0], "shared": tmp_path, "pretraining_updates": 5, "updates": 2}
    record = nae_edge.ray._same_request
    options = {"pretraining_updates": 5, "updates": 2}
    record(tmp_path, readings, options)
    record(tmp_path, readings.copy(), {**options, "checkpoint_every": 1.0})
    with pytest.raises(ValueError, match="has models of other data; give another folder"):
        nae_edge.ray.train_seeds(readings + 1, **asked)
    with pytest.raises(ValueError, match="has models with updates=2, not 3; give another folder"):
        nae_edge.ray.train_seeds(readings, **{**asked, "updates": 3})
    with pytest.raises(ValueError, match="has models with missing=None, not 'impute'"):
        nae_edge.ray.train_seeds(readings, **asked, missing="impute")
    file = tmp_path / "table.csv"
    file.write_text("a,b\n1,2\n")
    record(tmp_path / "other", str(file), options)
    file.write_text("a,b\n1,3\n")
    with pytest.raises(ValueError, match="has models of other data"):
        nae_edge.ray.train_seeds(file, **{**asked, "shared": tmp_path / "other"})


def test_an_image_that_cannot_be_read_does_not_end_the_job(model, root):
    images = [(root / f"models/digits/images/{name}.png").read_bytes() for name in ("six", "zero")]
    contents = np.empty(3, object)
    contents[:] = [images[0], b"no image", images[1]]
    scorer = nae_edge.ray.Scorer(model, outputs=["energy", "error"], errors="coerce")
    batch = scorer({"image": contents})
    assert np.isnan(batch["energy"]).tolist() == [False, True, False]
    assert batch["error"][0] is None and "image 1" in batch["error"][1]


def objects(*items):
    """A column of NumPy's whose items have no common type or size."""
    column = np.empty(len(items), object)
    for at, item in enumerate(items):
        column[at] = item
    return column


def nested(images):
    """A column of Arrow with the numbers of `images` as lists of lists, in their own type."""
    import pyarrow

    kind = pyarrow.list_(pyarrow.list_(pyarrow.from_numpy_dtype(images[0].dtype)))
    return pyarrow.array([image.tolist() for image in images], kind)


def test_whole_numbers_are_not_taken_modulo_256(digits, model, detector):
    import pyarrow

    scorer = nae_edge.ray.Scorer(model)
    for wrong in (np.full((8, 8), 300, np.uint16), np.full((8, 8), 256), np.full((8, 8), -1)):
        batch = objects(digits[0][0], np.pad(wrong, ((0, 0), (0, 2)), mode="edge"))
        with pytest.raises(TypeError, match="image 1: expected an array of uint8, float32 or float64, found (uint16|int64)"):
            scorer({"image": batch})
    coerced = nae_edge.ray.Scorer(model, outputs=["energy", "error"], errors="coerce")
    # The type of a column is that of all its images, also of those whose numbers would be bytes.
    dark, bright = digits[0][0].astype(np.uint16) // 2, digits[0][0].astype(np.uint16) * 200
    for batch in (objects(dark, bright), np.stack([dark, bright])):
        with pytest.raises(TypeError, match="expected an array of uint8, float32 or float64, found uint16"):
            scorer({"image": batch})
    table = pyarrow.table({"image": nested([dark, bright])})
    with pytest.raises(TypeError, match="image 0: expected an array of uint8, float32 or float64, found uint16"):
        scorer(table)
    assert all("found uint16" in error for error in coerced(table)["error"].to_pylist())
    with pytest.raises(TypeError, match="image 0: expected an array of uint8.*found int64"):
        scorer(pyarrow.table({"image": [digits[0][0].tolist()]}))
    rows = pyarrow.array([digits[0][0].tolist(), [[1], [1, 2]]], nested(digits[0][:1]).type)
    found = coerced(pyarrow.table({"image": rows}))["error"].to_pylist()
    assert found[0] is None and found[1].startswith("image 1: ")
    # Bytes at both ends of their range, and numbers from 0 to 1.
    for image in (np.full((8, 8), 255, np.uint8), np.zeros((8, 8), np.uint8), np.full((8, 8), 0.5)):
        found = scorer(pyarrow.table({"image": nested([image])}))["energy"].to_numpy()
        np.testing.assert_allclose(found, detector.score(image).energies, rtol=1e-6)


def test_the_first_axis_of_a_batch_is_that_of_its_rows(digits, detector, model):
    images = np.repeat(digits[0][:60, ..., None], 3, axis=3)
    images[..., 1] = 255 - images[..., 1]
    colour = nae_edge.train(images, pretraining_updates=1, updates=1, progress=False).detector
    assert colour.input_shape[0] == 3
    scorer = nae_edge.ray.Scorer(colour.to_bytes())
    expected = colour.score(digits[0][:4], layout="NHW").energies
    for count in (1, 3, 4):
        np.testing.assert_allclose(scorer({"image": digits[0][:count]})["energy"], expected[:count], rtol=1e-5)
    for width in (1, 3, 4):
        narrow = np.ascontiguousarray(digits[0][:5, :, :width])
        found = nae_edge.ray.Scorer(model)({"image": narrow})["energy"]
        np.testing.assert_array_equal(found, detector.score(narrow, layout="NHW").energies)


def test_a_batch_without_a_scored_sample_has_the_same_columns(model, table_model, root):
    import pyarrow

    image = (root / "models/digits/images/six.png").read_bytes()
    outputs = ["energy", "p_value", "anomaly", "latent", "heat_map", "error"]
    scorer = nae_edge.ray.Scorer(model, outputs=outputs, errors="coerce", column="content")
    for contents in ([image, b"bad"], [b"bad", b"x"], [None], []):
        count = len(contents)
        batch = scorer({"content": objects(*contents)})
        assert [batch[name].shape for name in outputs] == [(count,)] * 3 + [(count, 32), (count, 16, 16), (count,)]
        assert np.isnan(batch["latent"]).all() == np.isnan(batch["heat_map"]).all() == (image not in contents)
        table = scorer(pyarrow.table({"content": pyarrow.array(contents, pyarrow.binary())}))
        mixed = scorer(pyarrow.table({"content": pyarrow.array([image, b"bad"], pyarrow.binary())}))
        assert table.num_rows == count and table.schema == mixed.schema
    rows = {f"column {number}": np.zeros(0) for number in range(1, 5)}
    assert nae_edge.ray.Scorer(table_model.detector.to_bytes())(rows)["energy"].shape == (0,)


def test_a_gap_in_a_column_does_not_end_the_job(model, digits, root):
    import pyarrow

    image = (root / "models/digits/images/six.png").read_bytes()
    scorer = nae_edge.ray.Scorer(model, outputs=["energy", "error"], errors="coerce")
    arrays = objects(None, digits[0][0], digits[0][1].astype(int), np.zeros((2, 2, 2), np.uint8))
    for batch, gaps in [
        ({"image": objects(image, None)}, [1]),
        ({"image": objects(None, image)}, [0]),
        (pyarrow.table({"image": [None, image, None]}), [0, 2]),
        (pyarrow.table({"image": pyarrow.array([None, digits[0][0].tolist()], nested(digits[0]).type)}), [0]),
        ({"image": arrays}, [0, 2, 3]),
    ]:
        found = scorer(batch)
        energies = np.asarray(found["energy"])
        assert np.isnan(energies).nonzero()[0].tolist() == gaps
        errors = found["error"].tolist() if isinstance(batch, dict) else found["error"].to_pylist()
        assert [error.startswith(f"image {at}: ") for at, error in enumerate(errors) if error] == [True] * len(gaps)
    with pytest.raises(TypeError, match="image 1: expected the bytes of an image file, as image 0 is, found None"):
        nae_edge.ray.Scorer(model)({"image": objects(image, None)})
