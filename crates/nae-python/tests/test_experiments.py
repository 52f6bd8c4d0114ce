"""The paper's experiments in this process, shared out by hand, and one table of them."""

import json
import subprocess
import sys
import textwrap

import nae_edge
import nae_edge._experiments
import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def timeless(experiment):
    """The figures without what depends on the machine."""
    figures = json.loads(json.dumps(experiment.figures))
    models = [{key: value for key, value in model.items() if key != "processor_seconds"} for model in figures["models"]]
    return {**figures, "models": sorted(models, key=lambda model: (model["cell"], model["seed"]))}


def test_a_table_of_cells_and_seeds_that_were_made_apart(mnist, tmp_path):
    made = {"scale": "smoke", "data": mnist, "progress": False}
    whole = nae_edge.reproduce("mnist-holdout", cells=["digit-1"], seeds=[0, 4], folder=tmp_path / "whole", **made)
    for seed in (0, 4):
        one = {"cells": ["digit-1"], "seeds": [seed], "threads": 1}
        nae_edge.reproduce("mnist-holdout", folder=tmp_path / "apart" / str(seed), **one, **made)
    gathered = nae_edge.gather(tmp_path / "apart")
    assert timeless(gathered) == timeless(whole)
    assert "digit 1 (held out)" in str(whole) and "not run" in whole.table
    # What there is is not made again.
    again = nae_edge.reproduce("mnist-holdout", cells=["digit-1"], seeds=[0, 4], folder=tmp_path / "whole", **made)
    assert again.figures == whole.figures


def test_candidates_are_chosen_by_the_selection_set(mnist, tmp_path):
    made = {"scale": "smoke", "data": mnist, "seeds": 1, "folder": tmp_path, "search": True, "progress": False}
    found = nae_edge.reproduce("mnist-methods", cells=["dae-1"], **made)
    (row,) = [row for row in found.figures["rows"] if row["cell"] == "dae-1"]
    best = max(found.figures["models"], key=lambda model: model["selection_auroc"]["dae"])
    assert len(found.figures["models"]) == 8 and row["dae"]["chosen"] == best["cell"]


def test_densities(tmp_path):
    whole = nae_edge.reproduce("gaussians8", scale="smoke", seeds=1, folder=tmp_path / "one", progress=False)
    assert whole.figures["seeds"] == [0] and len(whole.figures["rows"]) == 12


def test_a_run_is_gone_on_with(tmp_path):
    """Broken off by an exception, which leaves the state of a power cut: the last one that was stored."""
    changes = {"pretraining.epochs": 2, "training.updates": 12, "stopping.every": 4}
    whole = nae_edge.train(changes=changes, preset="digits", seed=2, progress=False)

    def fails_at(event):
        if event["phase"] == "normalizing" and event["step"] == 9:
            raise RuntimeError("a power cut")

    run = {"changes": changes, "preset": "digits", "folder": tmp_path / "run", "checkpoint_every": 0, "progress": False}
    with pytest.raises(RuntimeError, match="a power cut"):
        nae_edge.train(seed=2, callback=fails_at, **run)
    assert (tmp_path / "run/resume.bin").exists()
    with pytest.raises(ValueError, match="has seed 2, not 3"):
        nae_edge.train(seed=3, resume=True, **run)
    with pytest.raises(ValueError, match="an interrupted run is there; continue it"):
        nae_edge.train(seed=2, **run)
    steps = []
    again = nae_edge.train(seed=2, resume=True, callback=lambda event: steps.append(event["step"]), **run)
    assert again.detector.to_bytes() == whole.detector.to_bytes()
    assert min(steps) >= 8, "from the last state, not from the start"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"experiment": "mnist"}, "experiment: expected one of mnist-holdout, .* found \"mnist\""),
        ({"scale": "small"}, "scale: expected smoke, cpu or paper, found \"small\""),
        ({"seeds": [3, 3]}, "seeds: .* 3 is there twice"),
        ({"seeds": 0}, "seeds: .* found 0"),
        ({"seeds": [-1]}, "seeds: expected a whole number, 0 or more, found -1"),
        ({"cells": ["digit-12"]}, "no cell `digit-12`"),
        ({"threads": 0}, "threads: expected 1 or more, found 0"),
        ({"threads": -1}, "threads: expected 1 or more, found -1"),
        ({"checkpoint_every": -1}, "checkpoint_every: expected seconds, from 0 to 1e19, found -1"),
        ({"experiment": "gaussians8", "cells": ["omi"]}, "gaussians8 has none"),
        ({"experiment": "gaussians8", "search": True}, "gaussians8 has nothing to search"),
        ({"experiment": "mnist-ood", "search": True}, "no cell has values to search"),
    ],
)
def test_what_cannot_be_made_is_said(arguments, said, mnist, tmp_path):
    asked = {"experiment": "mnist-holdout", "scale": "smoke", "data": mnist, "folder": tmp_path / "out", **arguments}
    with pytest.raises(ValueError, match=said):
        nae_edge.reproduce(**asked)


def test_seeds_are_whole_numbers_of_any_kind(mnist, tmp_path):
    for wrong, problem in [("3,", "found '3,'"), (1.5, "found 1.5"), ([1.5], "found 1.5")]:
        with pytest.raises(TypeError, match=f"^seeds: expected .*{problem}"):
            nae_edge.reproduce("gaussians8", scale="smoke", seeds=wrong, folder=tmp_path)
    with pytest.raises(TypeError, match="^cells: expected a list of names, found 'digit-1'"):
        nae_edge.reproduce("mnist-holdout", scale="smoke", data=mnist, cells="digit-1", folder=tmp_path)
    for seeds in (np.int64(2), [0, np.uint8(1)], np.arange(2)):
        assert nae_edge._experiments.listed_seeds(seeds) == [0, 1]


def test_changes_are_checked_as_the_preset_is(tmp_path):
    with pytest.raises(ValueError, match="changes: `trainin.updates` is no key"):
        nae_edge.train(preset="digits", changes={"trainin.updates": 1})
    with pytest.raises(ValueError, match="changes: .*unknown field `update`"):
        nae_edge.train(preset="digits", changes={"training.update": 1})
    with pytest.raises(ValueError, match="changes: they are of a preset"):
        nae_edge.train([[1.0, 2.0]] * 100, changes={"training.updates": 1})
    with pytest.raises(ValueError, match="expected the folder of an experiment"):
        nae_edge.gather(tmp_path)


def test_what_a_callback_raises_is_raised(mnist, tmp_path):
    made = {"scale": "smoke", "data": mnist, "cells": ["digit-1"], "seeds": [0], "progress": False}

    def fails(event):
        raise KeyError("of the callback")

    with pytest.raises(KeyError, match="of the callback"):
        nae_edge.reproduce("mnist-holdout", folder=tmp_path / "raised", callback=fails, **made)
    with pytest.raises(RuntimeError, match="the callback ended the experiment"):
        nae_edge.reproduce("mnist-holdout", folder=tmp_path / "ended", callback=lambda event: False, **made)
    with pytest.raises(ValueError, match="callback: gaussians8"):
        nae_edge.reproduce("gaussians8", scale="smoke", seeds=1, folder=tmp_path / "g", callback=fails, progress=False)


def test_ctrl_c_ends_gaussians8(tmp_path):
    """It tells nobody of its steps: signals are checked beside it."""
    script = """
        import os, signal, sys, threading, nae_edge

        threading.Timer(2.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            nae_edge.reproduce("gaussians8", scale="cpu", seeds=1, folder=sys.argv[1], progress=False)
        except KeyboardInterrupt:
            print("interrupted")
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "folder")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted\n", done.stdout + done.stderr
