"""Training in this process: `train` and its result."""

from __future__ import annotations

import html
import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import _native
from ._arguments import checked
from ._detector import Detector
from ._files import as_path, check_layout
from ._inputs import Columns, recognize
from ._progress import NotebookBar, in_notebook

Event = dict[str, Any]
Callback = Callable[[Event], object]

_PAGE = "report.html"
_TEXT = "report.md"


@dataclass(frozen=True)
class Report:
    """The report of a run: shown as a page in a notebook, as text elsewhere."""

    #: The report as Markdown.
    markdown: str = field(repr=False)
    #: The report as one HTML page, with its pictures.
    html: str = field(repr=False)
    #: The figures, as `nae-train --json` prints them.
    figures: dict[str, Any] = field(repr=False)

    def _repr_html_(self) -> str:
        # In a frame, so that its style does not affect the notebook.
        page = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:36em;border:1px solid #ddd"></iframe>'

    def __str__(self) -> str:
        return self.markdown


@dataclass(frozen=True)
class TrainedModel:
    """The result of a run."""

    #: The model, ready to score.
    detector: Detector
    #: Figures, pictures and the settings that were chosen.
    report: Report
    #: Warnings about data and model, one sentence each. `train` also issues them by `warnings.warn`.
    warnings: list[str]
    #: The run's config.toml: `train(data, preset=trained.config)` repeats the run, with its seed, without choosing settings
    #: again.
    config: str = field(repr=False)
    #: Whether Ctrl-C or the callback ended the run early; the model is then the best one so far. Also true if Ctrl-C came
    #: after training had ended, or where nothing is trained; the model is then complete.
    interrupted: bool

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model, with preprocessing and calibration, as ONNX."""
        self.detector.save(path)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def train(
    data: Any = None,
    *,
    preset: str | os.PathLike[str] | None = None,
    method: str | None = None,
    time_budget: float | None = None,
    pretraining_updates: int | None = None,
    updates: int | None = None,
    seed: int | None = None,
    outliers: Any = None,
    layout: str | None = None,
    form: str | None = None,
    fit: str = "stretch",
    tile: int | None = None,
    stride: int | None = None,
    top_k: int | None = None,
    features: str | os.PathLike[str] | None = None,
    feature_outputs: Sequence[str] = (),
    missing: str = "refuse",
    window: int | None = None,
    window_stride: int | None = None,
    held_out: int | None = None,
    changes: Mapping[str, Any] | None = None,
    confidence: float | None = None,
    strict: bool = False,
    threads: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_every: float = 60.0,
    callback: Callback | None = None,
    progress: bool = True,
) -> TrainedModel:
    """Trains a normalized autoencoder on normal data, as `nae-train` does.

    `data` are normal images or a table of normal rows: an array [N, H, W], [N, H, W, C] or [N, C, H, W] (`layout` as for
    `Detector.score`), a list of images, an array [N, columns], a DataFrame or Arrow table, or the path of a folder,
    archive or table. Without `data`, the preset's own data are used; those of `digits` come with the package. With both,
    `data` takes the place of the preset's data.

    Without a preset, the length of the run is `time_budget`, seconds for the whole run (default 600), from which the
    schedule is chosen by the measured speed of the machine; or `pretraining_updates` and `updates`, updates of the
    autoencoder and of the NAE, which give the same model on every machine with the same kind of processor. Further
    options are explained by `nae-train --help`: `outliers` for evaluation only, never trained on; `form`, `fit`,
    `tile`, `stride`, `top_k` and `features` for images; `missing`, `window` and `window_stride` for tables.
    `feature_outputs` are the names of the outputs of the network `features` to use (default: all feature maps). With
    `strict`, images that cannot be read, and grey and coloured images in one set, are an error; otherwise images that
    cannot be read are left out with a warning, and all images of such a set are read as coloured. `held_out` is the class that is
    held out as outliers, in place of the preset's; it is for presets. `confidence`, such as 0.95, raises the threshold
    so that its false-positive rate holds with this probability over the draw of the calibration data; without it the
    rate holds on average. `threads` is the number of threads (default: that of the processors); the model does not
    depend on it, except where `time_budget` chooses the schedule by the measured speed.

    `folder` is the run folder (default: a temporary one). With `resume`, a run that was interrupted there continues, with
    its own settings and the same data; if there is none, a new run starts. `checkpoint_every` is the time in seconds
    between two saved states.

    `method` is `nae`; `mahalanobis`, the distance to the mean of the data by their covariance; or `knn`, the distance to
    the nearest neighbours in the data. The latter two take seconds. With a preset, `method` replaces the preset's, and can
    also be `ae`, `dae`, `vae`, `wae`, `vqvae`, `ganomaly`, `igebm` or `mpdr`: all whose models can be exported.

    `preset` is a name, a .toml file, or the text of such a file, like the `config` of an earlier run. `changes` replaces
    values of the preset, by key: `{"training.learning_rate": 1e-4}`. `seed` is that of all random numbers; by default it is
    the one in the preset if that is the `config` of an earlier run, and otherwise 0.

    `callback` is called with a dictionary after each epoch of pre-training (`phase` "pretraining") and each update of the
    NAE ("normalizing"), with `step`, `total` and figures, and at each look at the model ("look"); of other methods after
    each epoch ("training"), without looks. If it returns False, or at Ctrl-C, the run ends with the best model so far. `progress` draws bars, on standard error or in the notebook.

    Raises ValueError, TypeError or OSError with the command line's message: OSError if `data`, `outliers` or `preset` cannot
    be read, ValueError for files that can be read and not used, and for a `folder` or `features` that cannot be used.
    """
    if callback is not None and not callable(callback):
        raise TypeError(f"callback: expected a function of one dictionary, found {type(callback).__name__}")
    if resume and folder is None:
        raise ValueError("resume: expected with folder, the run folder to resume; found none")
    if data is None and preset is None and not resume:
        raise TypeError("data: expected normal samples, or preset, found None")
    if (updates is None) != (pretraining_updates is None):
        raise ValueError("updates: expected with pretraining_updates; give both, or time_budget")
    progress = checked({"progress": progress})["progress"]
    given = None if data is None else recognize(data, table=None)
    others = None if outliers is None else recognize(outliers, table=None, name="outliers")
    check_layout(layout, given, others)
    if isinstance(given, Columns) and isinstance(others, Columns):
        others = others.named_like(given.names)
    notebook = progress and in_notebook()
    with tempfile.TemporaryDirectory(prefix="nae-edge-") as name:
        temporary = Path(name)
        run = temporary / "run" if folder is None else Path(checked({"folder": folder})["folder"])
        with in_memory(temporary):
            if isinstance(preset, str) and "\n" in preset:
                text, preset = preset, temporary / "config.toml"
                preset.write_text(text, "utf-8")
            asked = request(
                data=None if given is None else as_path(given, temporary, "data", layout),
                preset=preset,
                method=method,
                seed=seed,
                time_budget=time_budget,
                pretraining_updates=pretraining_updates,
                updates=updates,
                outliers=None if others is None else as_path(others, temporary, "outliers", layout),
                strict=strict,
                form=form,
                fit=fit,
                tile=tile,
                stride=stride,
                top_k=top_k,
                features=features,
                feature_outputs=feature_outputs,
                missing=missing,
                window=window,
                window_stride=window_stride,
                held_out=held_out,
                changes=None if changes is None else _json(changes),
                confidence=confidence,
                threads=threads,
                folder=run,
                resume=resume,
                checkpoint_every=checkpoint_every,
                report=True,
                bars=progress and not notebook,
            )
            result = _native.train(asked, _both(NotebookBar() if notebook else None, callback))
        figures = json.loads(result["json"])
        report = Report((run / _TEXT).read_text("utf-8"), (run / _PAGE).read_text("utf-8"), figures)
    early = result["interrupted"] is not None
    if result["keyboard"]:
        best = ": the model is what was best so far" if early else " after training had ended: the model is complete"
        print(f"interrupted{best}", file=sys.stderr)
    for warning in result["warnings"]:
        warnings.warn(warning, stacklevel=2)
    return TrainedModel(
        detector=Detector.from_bytes(result["model"], threads=threads),
        report=report,
        warnings=result["warnings"],
        config=result["config"],
        interrupted=early or result["keyboard"],
    )


def request(**asked: Any) -> dict[str, Any]:
    """The argument of `_native.train`: the arguments `asked`, and defaults for all others."""
    nothing = {
        **dict.fromkeys(("data", "preset", "method", "time_budget", "pretraining_updates", "updates", "outliers", "form",
        "tile", "changes")), **dict.fromkeys(("stride", "top_k", "features", "window", "window_stride", "held_out", "confidence",
        "threads")), **dict.fromkeys(("strict", "report", "bars", "resume"), False), "fit": "stretch", "missing": "refuse",
        "feature_outputs": [], "seed": None, "checkpoint_every": 60.0,
    }
    return checked({**nothing, **asked})


def _json(changes: Mapping[str, Any]) -> str:
    if not isinstance(changes, Mapping):
        raise TypeError(f"changes: expected a dictionary, found {changes!r}")
    return json.dumps({key: _plain(key, value) for key, value in changes.items()}, allow_nan=False)


def _plain(key: object, value: Any) -> Any:
    """The value of a key of `changes`, as JSON has it."""
    # A number or an array of NumPy.
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(key, item) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain(f"{key}.{name}", item) for name, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"changes: {key}: expected a finite number, found {value}")
    if not isinstance(value, (bool, int, float, str)):
        todo = "; leave the key out to keep the preset's value" if value is None else ""
        raise TypeError(
            f"changes: {key}: expected a number, a text, a truth value or a list of these, found {value!r}{todo}"
        )
    return value


def _both(first: Callback | None, second: Callback | None) -> Callback | None:
    if first is None or second is None:
        return first or second

    def tell(event: Event) -> object:
        first(event)
        return second(event)

    return tell


class in_memory:
    """Removes the temporary folder from messages about data that were given in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder) + os.sep

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, (ValueError, OSError)) and len(error.args) == 1 and isinstance(error.args[0], str):
            error.args = (error.args[0].replace(self._folder, ""),)
