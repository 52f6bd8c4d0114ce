"""Runs in this process: the command line's model, watched and stopped."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import types
from functools import partial

import nae_edge
import numpy as np
import pytest

QUICK = {"pretraining_updates": 20, "updates": 3, "progress": False}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_the_same_seed_gives_the_same_model(digits, tmp_path):
    images = digits[0][:120]
    first = nae_edge.train(images, seed=4, folder=tmp_path / "run", threads=1, **QUICK)
    again = nae_edge.train(images.astype(np.uint8), seed=4, threads=2, **QUICK)
    other = nae_edge.train(images, seed=5, **QUICK)
    assert first.detector.to_bytes() == again.detector.to_bytes() != other.detector.to_bytes()
    # The recorded settings give it again, without a number of updates.
    config = tmp_path / "config.toml"
    config.write_text(first.config)
    np.save(tmp_path / "data.npy", images[:, None])
    repeated = nae_edge.train(tmp_path / "data.npy", preset=config, seed=4, progress=False)
    assert repeated.detector.to_bytes() == first.detector.to_bytes()
    assert (tmp_path / "run/report.html").exists() and not (tmp_path / "run/resume.bin").exists()


def test_the_order_of_the_axes_does_not_matter(digits):
    images = np.stack([digits[0][:60], digits[0][60:120], digits[0][120:180]], axis=-1)
    first, last = np.ascontiguousarray(images.transpose(0, 3, 1, 2)), images
    models = [nae_edge.train(form, **QUICK).detector.to_bytes() for form in (last, first, list(last))]
    # Of a list each image is a file, so the data have another SHA-256, and that is in the model.
    assert models[0] == models[1] and len(models[2]) == len(models[0])
    scores = [nae_edge.Detector.from_bytes(model).score(last).energies for model in models]
    np.testing.assert_array_equal(scores[0], scores[2])


def test_images_in_tiles_keep_their_sizes(digits):
    images = [np.kron(image, np.ones((4, 4 + k % 2), np.uint8)) for k, image in enumerate(digits[0][:60])]
    detector = nae_edge.train(images, tile=16, stride=16, top_k=2, **QUICK).detector
    scores = detector.score(images)
    assert [heat_map.shape for heat_map in scores.heat_maps[:2]] == [(32, 32), (32, 40)] and scores.latents is None
    assert detector.score(images[:1]).heat_maps.shape == (1, 32, 32)
    np.testing.assert_array_equal(detector.score(images[5]).energies, scores.energies[5:6])
    with pytest.raises(ValueError, match="image 1: "):
        detector.score([images[0], images[0][:8]])


def test_what_a_run_leaves(digits, tmp_path):
    images, labels = digits
    trained = nae_edge.train(images[labels != 1][:200], outliers=images[labels == 1], **QUICK)
    assert not trained.interrupted
    assert "# data · seed 0" in str(trained.report) and "| outliers (given)" in str(trained.report)
    assert trained.report.figures["threshold"] == pytest.approx(trained.detector.threshold)
    assert trained._repr_html_().startswith("<iframe srcdoc=") and "<svg" in trained.report.html
    assert "&lt;svg" in trained._repr_html_() and "<svg" not in trained._repr_html_()
    assert trained.warnings == trained.report.figures["warnings"] != []
    trained.save(tmp_path / "model.onnx")
    again = nae_edge.Detector.open(tmp_path / "model.onnx")
    np.testing.assert_array_equal(again.score(images[:5]).energies, trained.detector.score(images[:5]).energies)


def test_warnings_are_raised(digits):
    with pytest.warns(UserWarning, match="60 normal images are few"):
        nae_edge.train(digits[0][:60], **QUICK)


def test_a_preset_trains_on_its_own_data():
    trained = nae_edge.train(preset="digits", held_out=9, **QUICK)
    assert "digit 9" in str(trained.report)


def test_a_distance_to_the_data_needs_no_training(digits):
    normal, outliers = digits[0][digits[1] != 1], digits[0][digits[1] == 1]
    trained = nae_edge.train(normal[:1000], method="mahalanobis", progress=False)
    assert trained.report.figures["method"] == "mahalanobis" and "nothing is trained" in str(trained.report)
    # (x − μ)ᵀ Σ⁻¹ (x − μ) by numpy, of other samples: what is close to the data there is close here.
    pixels = normal[:1000].reshape(1000, -1) / 255.0
    varying = pixels.std(axis=0) > 0.01
    inverse = np.linalg.inv(np.cov(pixels[:, varying].T) + 1e-3 * np.eye(varying.sum()))
    rest = np.concatenate([normal[1000:1200], outliers]).reshape(-1, 64)[:, varying] / 255.0 - pixels[:, varying].mean(axis=0)
    expected = np.einsum("ni,ij,nj->n", rest, inverse, rest)
    energies = trained.detector.score(np.concatenate([normal[1000:1200], outliers])).energies
    ranks = [np.argsort(np.argsort(values)) for values in (expected, energies)]
    assert np.corrcoef(ranks)[0, 1] > 0.9


def test_the_nearest_of_the_data_are_a_model(digits):
    normal, outliers = digits[0][digits[1] != 1], digits[0][digits[1] == 1]
    trained = nae_edge.train(normal[:1000], method="knn", progress=False)
    assert trained.report.figures["method"] == "knn"
    # The least squared distance by numpy; the model has those of the 1,000 that it is trained on.
    known, asked = normal[:1000].reshape(1000, -1) / 255.0, np.concatenate([normal[1000:1200], outliers])
    rest = asked.reshape(len(asked), -1) / 255.0
    expected = ((rest[:, None] - known[None]) ** 2).mean(axis=2).min(axis=1)
    ranks = [np.argsort(np.argsort(values)) for values in (expected, trained.detector.score(asked).energies)]
    assert np.corrcoef(ranks)[0, 1] > 0.9


def test_methods_that_cannot_come_back_are_refused(digits):
    with pytest.raises(ValueError, match='method: expected one of nae, ae, .*, found "pca"'):
        nae_edge.train(digits[0][:60], method="pca", **QUICK)
    with pytest.raises(ValueError, match="method: expected nae, mahalanobis or knn .*preset"):
        nae_edge.train(digits[0][:60], method="vae", **QUICK)
    with pytest.raises(ValueError, match="a model trained by `glow` is not exported"):
        nae_edge.train(preset="digits", method="glow", **QUICK)
    assert nae_edge.train(preset="digits", method="ae", **QUICK).report.figures["method"] == "ae"


def test_a_list_of_images_of_any_size(digits):
    images = [np.kron(image, np.ones((k % 2 + 1, k % 3 + 1), np.uint8)) for k, image in enumerate(digits[0][:60])]
    trained = nae_edge.train(images, **QUICK)
    assert len(trained.detector.score(images)) == 60


def test_a_callback_sees_every_step_and_may_end_the_run(digits, tmp_path):
    events = []
    nae_edge.train(digits[0][:120], callback=events.append, folder=tmp_path / "run", **QUICK)
    assert [event["step"] for event in events if event["phase"] == "normalizing"] == [1, 2, 3]
    pretraining = [event for event in events if event["phase"] == "pretraining"]
    assert pretraining[-1]["step"] == pretraining[-1]["total"] and pretraining[0]["energy"] > pretraining[-1]["energy"]
    # A look before the first update, and after each: what the run folder has of them.
    looks = [event for event in events if event["phase"] == "look"]
    assert [look["step"] for look in looks] == [0, 1, 2, 3]
    lines = map(json.loads, (tmp_path / "run/metrics.jsonl").read_text().splitlines())
    recorded = [line for line in lines if line["kind"] == "look"]
    for figure in ("selection_auroc", "selection_low", "validation_energy"):
        assert [look[figure] for look in looks] == [line[figure] for line in recorded]

    def end(event):
        return not (event["phase"] == "normalizing" and event["step"] == 2)

    stopped = nae_edge.train(digits[0][:120], callback=end, **{**QUICK, "updates": 1000})
    assert stopped.interrupted and len(stopped.detector.score(digits[0][:5])) == 5


def test_an_exception_in_the_callback_ends_the_run(digits):
    def fail(event):
        raise KeyError(event["phase"])

    with pytest.raises(KeyError, match="pretraining"):
        nae_edge.train(digits[0][:60], callback=fail, **QUICK)


def test_ctrl_c_leaves_a_model(root, tmp_path):
    code = """
        import sys, numpy as np, nae_edge
        normal = np.random.default_rng(0).integers(0, 255, (200, 16, 16), np.uint8)
        told = []
        def tell(event):
            if not told:
                told.append(event)
                print("training", flush=True)
        trained = nae_edge.train(normal, pretraining_updates=10**7, updates=10, callback=tell, folder=sys.argv[1])
        print("interrupted" if trained.interrupted else "whole", len(trained.detector.score(normal)))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), tmp_path / "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "training\n"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=120)
    assert process.returncode == 0 and out == "interrupted 200\n", errors
    assert "interrupted: the model is what was best so far" in errors
    # The command line goes on from there: nae-train --resume.
    assert (tmp_path / "run/resume.bin").exists()


def test_a_time_budget_is_kept(readings):
    trained = nae_edge.train(readings, time_budget=4, progress=False)
    assert trained.report.figures["seconds"] < 12
    assert "for 4s in all" in str(trained.report)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"time_budget": -1.0}, "time_budget: expected seconds, from 0 to 1e19, found -1"),
        ({"time_budget": 0}, "time_budget: expected more than 0 seconds, found 0"),
        ({"time_budget": float("nan")}, "time_budget: expected seconds"),
        ({"time_budget": 1.0, **QUICK}, "time_budget: the updates are given already"),
        ({"time_budget": 1.0, "preset": "digits"}, "time_budget: for data of your own"),
        ({"updates": 3}, "updates: expected with pretraining_updates"),
        ({"pretraining_updates": 9, "updates": 0}, "updates: expected 1 or more, found 0"),
        ({"tile": 200}, "tile: expected 12 to 82, found 200"),
        ({"window": 4}, "--window: .*data.npy is no table"),
        ({"window": 1}, "window: expected 2 to 65535, found 1"),
        ({"tile": 12, "stride": 13}, "--stride: 13 pixels from one tile of 12 to the next would leave some out"),
        ({"top_k": 3}, "--top-k: an image that is not divided has one energy"),
        ({"form": "round"}, 'form: expected whole, tiles, features or best, found "round"'),
        ({"form": "tiles", **QUICK}, "--form tiles: give the side of the tiles with --tile"),
        ({"fit": "zoom"}, 'fit: expected stretch, crop or pad, found "zoom"'),
        ({"missing": "mean field"}, 'missing: expected refuse or fill, found "mean field"'),
        ({"confidence": 1.5}, "confidence: expected a number above 0"),
        ({"confidence": 0.999, **QUICK}, "--confidence: a confidence of 0.999 takes"),
        ({"preset": "nothing"}, "nothing"),
        ({"threads": 0}, "threads: expected 1 or more, found 0"),
        ({"threads": -1}, "threads: expected 1 or more, found -1"),
        ({"features": "absent.onnx", **QUICK}, "--features: .*absent.onnx"),
        ({"held_out": 3, **QUICK}, "--held-out|held_out|class"),
    ],
)
def test_what_cannot_be_asked_for(digits, arguments, problem):
    with pytest.raises(ValueError, match=problem):
        nae_edge.train(digits[0][:60], **arguments)


def test_data_that_cannot_be_trained_on(digits, tmp_path):
    with pytest.raises(ValueError, match="^data: 49 images; at least 50 are needed"):
        nae_edge.train(digits[0][:49], **QUICK)
    with pytest.raises(ValueError, match="^--data: data.csv: expected 2 to 8192 columns"):
        nae_edge.train(np.arange(60.0).reshape(60, 1), **QUICK)
    with pytest.raises(ValueError, match="^--data: data.npy: .*expected values from 0 to 1"):
        nae_edge.train(digits[0][:60] / 16, **QUICK)
    with pytest.raises(ValueError, match="--outliers: .* lies in .*, and would be trained on"):
        nae_edge.train(tmp_path, outliers=tmp_path, **QUICK)
    for wrong in (3, object(), {"a": 1}, [tmp_path, tmp_path]):
        with pytest.raises(TypeError, match="expected"):
            nae_edge.train(wrong, **QUICK)
    with pytest.raises(TypeError, match="callback"):
        nae_edge.train(digits[0], callback=3)


def test_errors_say_what_the_command_line_says(program, digits, tmp_path):
    few, table, out = tmp_path / "few.npy", tmp_path / "odd.csv", tmp_path / "run"
    np.save(few, digits[0][:10])
    table.write_text("a,b\n1,2\n2\n")
    for data in (few, table, tmp_path / "absent", tmp_path):
        kind = FileNotFoundError if data == tmp_path / "absent" else ValueError
        with pytest.raises(kind) as raised:
            nae_edge.train(data, folder=out, **QUICK)
        assert str(raised.value) == program("nae-train", "--data", data, "--out", out)


def test_files_that_cannot_be_read_are_errors_of_the_system(digits, readings, tmp_path):
    absent, secret = tmp_path / "absent", tmp_path / "secret.csv"
    with pytest.raises(FileNotFoundError, match="^--data: .*absent"):
        nae_edge.train(absent, **QUICK)
    with pytest.raises(FileNotFoundError, match="^--outliers: .*absent"):
        nae_edge.train(digits[0][:80], outliers=absent, **QUICK)
    for more in ({}, {"changes": {"training.updates": 3}}):
        with pytest.raises(FileNotFoundError, match="absent.toml"):
            nae_edge.train(readings, preset=tmp_path / "absent.toml", progress=False, **more)
    with pytest.raises(FileNotFoundError, match="absent"):
        nae_edge.gather(absent)
    with pytest.raises(FileNotFoundError, match="absent"):
        nae_edge.reproduce("mnist-holdout", data=absent, scale="smoke", seeds=1, folder=tmp_path / "out", progress=False)
    # The texts of the command line's errors of run folders and features say why, not as whose error.
    secret.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="secret.csv"):
        nae_edge.train(readings, folder=secret, **QUICK)


@pytest.mark.parametrize(
    ("arguments", "kind", "problem"),
    [
        ({"seed": -1}, ValueError, "seed: expected a whole number, 0 or more, found -1"),
        ({"seed": 1.5}, TypeError, "seed: expected a whole number, 0 or more, found 1.5"),
        ({"seed": 2**64}, ValueError, f"seed: expected a whole number, 0 to {2**64 - 1}, found {2**64}"),
        ({"updates": -1}, ValueError, "updates: expected a whole number, 0 or more, found -1"),
        ({"updates": 4.0}, TypeError, "updates: expected a whole number, 0 or more, found 4.0"),
        ({"pretraining_updates": "9"}, TypeError, "pretraining_updates: expected a whole number, 0 or more, found '9'"),
        ({"threads": "2"}, TypeError, "threads: expected a whole number, 1 or more, found '2'"),
        ({"held_out": 300}, ValueError, "held_out: expected a whole number, 0 to 255, found 300"),
        ({"tile": 16.0}, TypeError, "tile: expected a whole number, 0 or more, found 16.0"),
        ({"time_budget": "9"}, TypeError, "time_budget: expected a number, found '9'"),
        ({"checkpoint_every": None}, TypeError, "checkpoint_every: expected a number, found None"),
        ({"strict": 1}, TypeError, "strict: expected True or False, found 1"),
        ({"form": 3}, TypeError, "form: expected a text, found 3"),
        ({"fit": None}, TypeError, "fit: expected a text, found None"),
        ({"features": 3}, TypeError, "features: expected a path, found 3"),
        ({"folder": 3}, TypeError, "folder: expected a path, found 3"),
        ({"feature_outputs": "abc"}, TypeError, "feature_outputs: expected a list of names, found 'abc'"),
        ({"layout": 5}, TypeError, "layout: expected a text, found 5"),
    ],
)
def test_arguments_of_another_type_are_named(digits, arguments, kind, problem):
    with pytest.raises(kind, match=f"^{problem}"):
        nae_edge.train(digits[0][:60], **{**QUICK, **arguments})


def test_numbers_of_numpy_are_numbers(digits):
    changes = {"training.updates": np.int64(2), "training.learning_rate": np.float32(1e-4)}
    trained = nae_edge.train(
        preset="digits", seed=np.uint8(3), changes={**changes, "pretraining.epochs": np.int8(1)}, progress=False
    )
    assert "seed = 3" in trained.config and "updates = 2\n" in trained.config


def test_a_finished_run_of_other_data_is_kept(digits, readings, tmp_path):
    folder = tmp_path / "run"
    train = partial(nae_edge.train, method="mahalanobis", folder=folder, progress=False)
    images = digits[0]
    first = train(images).detector.to_bytes()
    before = (folder / "checkpoint.safetensors").read_bytes()
    for data, arguments in [(readings, {}), (images, {"seed": 1}), (images[:-9], {"resume": True})]:
        with pytest.raises(ValueError, match="folder: .*run: a finished run of other data or settings is there"):
            train(data, **arguments)
        assert (folder / "checkpoint.safetensors").read_bytes() == before and (folder / "result.json").exists()
    # The same run again is no loss.
    assert train(images).detector.to_bytes() == first


def test_a_path_is_not_empty(digits, detector, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="folder: expected a path, found an empty text"):
        nae_edge.train(digits[0], method="knn", folder="", progress=False)
    with pytest.raises(ValueError, match="data: expected a path"):
        detector.score("")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_not_data():
    with pytest.raises(TypeError, match="data: expected normal samples, or preset, found None"):
        nae_edge.train(None, method="mahalanobis")


def test_the_name_of_a_model_says_its_format(detector, tmp_path):
    with pytest.raises(ValueError, match="model.nae: the model is written as ONNX"):
        detector.save(tmp_path / "model.nae")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_the_user_is_expanded(digits, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    trained = nae_edge.train(digits[0][:60], folder="~/run", **QUICK)
    trained.save("~/run/model.onnx")
    assert nae_edge.Detector.open("~/run/model.onnx").threshold == trained.detector.threshold
    assert (tmp_path / "home/run/config.toml").exists() and not (tmp_path / "~").exists()


def test_importing_takes_neither_scikit_learn_nor_a_second():
    code = "import sys, nae_edge; print(sorted({'sklearn', 'pandas', 'IPython', 'PIL'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout == "[]\n"


def test_without_scikit_learn_only_the_estimator_is_missing():
    code = "import sys; sys.modules['sklearn'] = None; import nae_edge; nae_edge.NormalizedAutoencoderDetector"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "pip install 'nae-edge[sklearn]'" in done.stderr


def test_what_would_be_passed_over_is_refused():
    for given in ({"tile": 16}, {"fit": "crop"}, {"features": "absent.onnx"}, {"missing": "fill"}, {"window": 4}):
        with pytest.raises(ValueError, match=next(iter(given))):
            nae_edge.train(preset="digits", progress=False, **given)
    for given in ({"stride": 4}, {"window_stride": 4}, {"feature_outputs": ["a"]}):
        with pytest.raises(ValueError, match="expected with"):
            nae_edge.train(np.zeros((60, 8, 8), np.uint8), **given, **QUICK)


def test_the_text_of_a_configuration_is_a_preset(digits):
    images = digits[0][:80]
    first = nae_edge.train(images, seed=3, **QUICK)
    # Its seed is that of the run, unless another is given.
    again = nae_edge.train(images, preset=first.config, progress=False)
    assert again.detector.to_bytes() == first.detector.to_bytes() and "seed 3" in str(again.report)
    assert nae_edge.train(images, preset=first.config, seed=3, progress=False).detector.to_bytes() == first.detector.to_bytes()
    other = nae_edge.train(images, preset=first.config, seed=0, progress=False)
    assert other.detector.to_bytes() == nae_edge.train(images, **QUICK).detector.to_bytes() != first.detector.to_bytes()


def test_numpys_false_ends_a_run_and_nothing_else_does(digits):
    ended = nae_edge.train(digits[0][:80], callback=lambda _: np.False_, **QUICK)
    assert ended.interrupted
    for other in (None, 0, "", np.True_):
        assert not nae_edge.train(digits[0][:80], callback=lambda _, other=other: other, **QUICK).interrupted


def test_ctrl_c_during_the_evaluation_leaves_a_model():
    """Signals are looked at between updates, and once more at the end."""
    script = """
        import os, signal, numpy, nae_edge

        def press(event):
            # After the last update nothing is asked any more.
            if event["phase"] == "normalizing" and event["step"] == event["total"]:
                os.kill(os.getpid(), signal.SIGINT)

        images = numpy.random.default_rng(0).integers(0, 255, (80, 8, 8), dtype=numpy.uint8)
        trained = nae_edge.train(images, pretraining_updates=5, updates=2, progress=False, callback=press)
        print("model", len(trained.detector.to_bytes()) > 1000, "interrupted", trained.interrupted)
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert "model True interrupted True" in done.stdout, done.stdout + done.stderr
    assert done.stderr == "interrupted after training had ended: the model is complete\n"


def test_ctrl_c_where_nothing_is_trained_is_said(digits, monkeypatch, capsys):
    """As at the end of every run: `_native` says that the key was pressed, and the run was complete."""
    made = nae_edge._native.train
    pressed = types.SimpleNamespace(train=lambda *asked: {**made(*asked), "keyboard": True})
    monkeypatch.setattr(nae_edge._training, "_native", pressed)
    for method in ("knn", "mahalanobis"):
        trained = nae_edge.train(digits[0][:200], method=method, progress=False)
        assert trained.interrupted and len(trained.detector.score(digits[0][:5])) == 5
        assert capsys.readouterr().err == "interrupted after training had ended: the model is complete\n"


def test_ctrl_c_does_not_wait_for_the_end_of_an_epoch():
    script = """
        import os, signal, threading, numpy, nae_edge

        images = numpy.random.default_rng(0).integers(0, 255, (60000, 28, 28), dtype=numpy.uint8)
        # Well after the data are handed over, and well before the first epoch is over.
        threading.Timer(3.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        epochs = []
        trained = nae_edge.train(images, pretraining_updates=2000, updates=1, progress=False, callback=epochs.append)
        print("interrupted", trained.interrupted, "after", len(epochs), "epochs")
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert "interrupted True after 0 epochs" in done.stdout, done.stdout + done.stderr


def test_each_member_of_a_list_is_one_image(digits):
    coloured = [np.stack([image, image // 2, image // 3]) for image in digits[0][:60]]
    detector = nae_edge.train(coloured, **QUICK).detector
    assert detector.input_shape[0] == 3 and len(detector.score(coloured)) == 60


@pytest.mark.parametrize(
    ("value", "kind", "problem"),
    [
        ({1}, TypeError, "expected a number, a text, a truth value or a list of these, found {1}"),
        (None, TypeError, "expected a number, .* found None; leave the key out to keep the preset's value"),
        (float("nan"), ValueError, "expected a finite number, found nan"),
        (np.float32("inf"), ValueError, "expected a finite number, found inf"),
        ([1.0, -float("inf")], ValueError, "expected a finite number, found -inf"),
        (np.array([1.0, np.nan]), ValueError, "expected a finite number, found nan"),
        ({"low": None}, TypeError, "expected a number, .* found None"),
    ],
)
def test_a_change_that_cannot_be_made_is_named(value, kind, problem):
    with pytest.raises(kind, match=f"^changes: training.learning_rate.*: {problem}"):
        nae_edge.train(preset="digits", changes={"training.updates": 2, "training.learning_rate": value}, progress=False)
    with pytest.raises(TypeError, match="^changes: expected a dictionary, found 'training.updates'"):
        nae_edge.train(preset="digits", changes="training.updates", progress=False)


def test_a_layout_that_nothing_uses_is_refused(digits, readings, tmp_path):
    np.save(tmp_path / "images.npy", digits[0][:60])
    for data in (readings, tmp_path / "images.npy"):
        with pytest.raises(ValueError, match="^layout: it is for arrays of images; leave it out, or give the array"):
            nae_edge.train(data, layout="NHW", **QUICK)
    with pytest.raises(ValueError, match="^layout: it is for arrays of images"):
        nae_edge.train(preset="digits", layout="NHW", progress=False)
    with pytest.raises(ValueError, match='^layout: expected one of HW, .*found "WH"'):
        nae_edge.train(digits[0][:60], layout="WH", **QUICK)
    # One of two is enough.
    trained = nae_edge.train(tmp_path / "images.npy", outliers=digits[0][60:80], layout="NHW", **QUICK)
    assert "| outliers (given)" in str(trained.report)


class Tensor:
    """As one of PyTorch that needs a gradient, or whose numbers NumPy does not have."""

    shape, ndim = (2, 2), 2

    def __init__(self, error):
        self._error = error

    def __array__(self, dtype=None, copy=None):
        raise self._error


@pytest.mark.parametrize("error", [RuntimeError("it requires grad"), TypeError("BFloat16")])
def test_tensors_that_numpy_cannot_read_are_named(error, detector, table_model, digits):
    tensor = Tensor(error)
    problem = f"expected an array, found a Tensor that NumPy cannot read: {error}; .*tensor.detach"
    for score in (detector.score, table_model.detector.score):
        with pytest.raises(TypeError, match=f"^data: {problem}"):
            score(tensor)
    with pytest.raises(TypeError, match=f"^image 1: {problem}"):
        detector.score([digits[0][0], tensor])
    assert "Tensor" in detector.score([digits[0][0], tensor], errors="coerce").errors[1]
    with pytest.raises(TypeError, match=f"^outliers: {problem}"):
        nae_edge.train(digits[0][:60], outliers=tensor, **QUICK)


def test_a_series_of_paths_is_a_list(detector, root):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    path = str(root / "models/digits/images/six.png")
    for series in (pandas.Series([path]), polars.Series([path])):
        with pytest.raises(TypeError, match=r"^data: expected .*, found a Series: give a list: list\(series\)"):
            detector.score(series)
        with pytest.raises(TypeError, match=r"^data: .*found a Series: give a DataFrame, or a list: list\(series\)"):
            nae_edge.train(series, **QUICK)
        assert len(detector.score(list(series))) == 1
