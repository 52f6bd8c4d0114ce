"""Scoring, seeds, experiments and searches of settings on the machines of a Ray cluster.

Ray places tasks, moves data, and repeats the tasks of a machine that is lost. One model is trained on one machine; whole
models and batches are distributed. Install with `pip install 'nae-edge[ray]'`. docs/cluster.md says when a cluster is worth it.

Every node needs this package. Training also needs `shared`, a folder that all nodes see under the same path (NFS, EFS, a
mounted bucket). Each model has a run folder there; a repeated task continues from the last state in it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native
from ._arguments import path, whole
from ._detector import Detector, keeps_errors
from ._experiments import Experiment, experiment_request, gather, listed_seeds
from ._experiments import reproduce as _reproduce
from ._files import check_layout, data_digest
from ._inputs import Files, arrow_images, nested_images, recognize
from ._training import train

try:
    import ray
except ModuleNotFoundError as error:
    raise ImportError(f"nae_edge.ray needs Ray ({error}): pip install 'nae-edge[ray]'") from error

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["Scorer", "reproduce", "score", "train_seeds", "trainable"]

_OUTPUTS = ("energy", "p_value", "anomaly", "latent", "heat_map", "error")
_MODEL = "model.onnx"
_REQUEST = "request.json"

# Figures of a run that need no outliers: only these may be used to choose settings.
LABEL_FREE = ("selection_auroc", "validation_energy", "positive_energy", "negative_energy")


class Scorer:
    """A detector for `Dataset.map_batches`, which creates one in each of its actors.

    `model` is a path that every node sees, or the contents of a model file. A batch, of NumPy arrays or Arrow, is returned
    with additional columns `outputs`: `energy`, `p_value` and `anomaly` as in `Scores`; on request `latent`, `heat_map` and
    `error`, the message of a sample that could not be scored (with `errors="coerce"`, as for `Detector.score`) or None. A
    model of images scores `column` (default: `image`, or the only column): arrays, of one size or of several, or contents
    of image files. Lists in a column of Arrow have numbers of its type: uint8, float32 or float64, as arrays have. The first
    axis of a batch counts its rows: an array with three axes is a batch of grey images [N, H, W]. A model of a table finds
    its columns by name.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        column: str | None = None,
        layout: str | None = None,
        outputs: Sequence[str] = ("energy", "p_value", "anomaly"),
        errors: str = "raise",
        threads: int = 1,
        **options: Any,
    ) -> None:
        unknown = [name for name in outputs if name not in _OUTPUTS]
        if unknown or not outputs:
            raise ValueError(f"outputs: expected some of {', '.join(_OUTPUTS)}, found {list(outputs)}")
        keeps_errors(errors)
        if isinstance(model, bytes):
            self.detector = Detector.from_bytes(model, threads=threads, **options)
        else:
            self.detector = Detector.open(model, threads=threads, **options)
        self._column, self._layout, self._outputs, self._errors = column, layout, tuple(outputs), errors
        self._takes_tables = self.detector._native.takes_tables

    def __call__(self, batch: Any) -> Any:
        is_arrow = type(batch).__module__.partition(".")[0] == "pyarrow"
        names = list(batch.column_names) if is_arrow else list(batch)
        if not is_arrow and not names:
            raise ValueError("batch: expected at least one column, found none")
        count = batch.num_rows if is_arrow else len(batch[names[0]])
        samples = self._table(batch) if self._takes_tables else self._images(batch, names, is_arrow)
        wants = self._outputs
        keep = {"latents": "latent" in wants, "heat_maps": "heat_map" in wants}
        if count == 0:
            # An empty batch has no type to recognize, but its output columns must have the usual types.
            scores = self.detector._scored(Files([]), None, {**keep, "errors": False})
        else:
            scores = self.detector.score(samples, layout=self._layout_of(samples), errors=self._errors, **keep)
        if len(scores) != count:
            raise ValueError(f"expected one sample per row of the dataset, found {len(scores)} samples in {count} rows")
        found = {
            "energy": scores.energies,
            "p_value": scores.p_values,
            "anomaly": scores.verdicts,
            "latent": scores.latents,
            "heat_map": scores.heat_maps,
            "error": np.array([scores.errors.get(at) for at in range(count)], object),
        }
        for name in wants:
            if found[name] is None:
                raise ValueError(f"outputs: {name}: the model has no such output; leave it out")
        if not is_arrow:
            return {**batch, **{name: found[name] for name in wants}}
        import pyarrow

        # Batches without a scored sample have columns of the same types.
        row = pyarrow.list_(pyarrow.float64())
        types = {"latent": row, "heat_map": pyarrow.list_(row), "error": pyarrow.string()}
        for name in wants:
            values = found[name]
            flat = values if getattr(values, "ndim", 2) == 1 else [np.asarray(value).tolist() for value in values]
            batch = batch.append_column(name, pyarrow.array(flat, types.get(name)))
        return batch

    def _layout_of(self, samples: Any) -> str | None:
        if self._takes_tables:
            return None
        # The number of rows says nothing about channels; a batch of three is no image of three.
        is_grey = isinstance(samples, np.ndarray) and samples.ndim < 4
        return "NHW" if is_grey and self._layout is None else self._layout

    def _table(self, batch: Any) -> Any:
        if not isinstance(batch, Mapping):
            return batch
        import pyarrow

        return pyarrow.table(dict(batch))

    def _images(self, batch: Any, names: list[str], is_arrow: bool) -> Any:
        column = self._column or ("image" if "image" in names else names[0] if len(names) == 1 else None)
        if column not in names:
            asked = "image, or the only column," if self._column is None else repr(self._column)
            raise ValueError(f"column: expected {asked} to have the images, found {', '.join(names)}; give column=NAME")
        if is_arrow:
            return arrow_images(batch.column(column))
        images = batch[column]
        # NumPy gives objects if sizes differ.
        return images if isinstance(images, np.ndarray) and images.dtype != object else nested_images(images)


def score(
    dataset: Dataset,
    model: str | os.PathLike[str] | bytes,
    *,
    batch_size: int = 256,
    concurrency: int | tuple[int, int] | None = None,
    batch_format: str = "numpy",
    ray_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Dataset:
    """Adds energies to `dataset`: applies a `Scorer` to every batch, with one detector and one thread per actor.

    The model file is read here and sent to the nodes with the actors. `concurrency` is the number of actors, or the
    smallest and the largest number (default: up to the number of processors of the cluster). `options` are those of
    `Scorer`, `ray_options` those of `Dataset.map_batches`. Rows keep their order if
    `ray.data.DataContext.get_current().execution_options.preserve_order` is set.
    """
    content = model if isinstance(model, bytes) else Path(path("model", model)).read_bytes()
    # So that a wrong model or option is an error here, not in an actor's log.
    Scorer(content, **options)
    if concurrency is None:
        concurrency = (1, max(1, int(ray.cluster_resources().get("CPU", 1))))
    return dataset.map_batches(
        Scorer,
        fn_constructor_kwargs={"model": content, **options},
        batch_size=batch_size,
        batch_format=batch_format,
        concurrency=concurrency,
        **{"num_cpus": options.get("threads", 1), **(ray_options or {})},
    )


def reproduce(
    experiment: str,
    *,
    shared: str | os.PathLike[str],
    scale: str = "cpu",
    cells: Sequence[str] = (),
    seeds: int | Sequence[int] = 3,
    data: str | os.PathLike[str] | None = None,
    settings: str | os.PathLike[str] | None = None,
    search: bool = False,
    threads: int = 1,
    checkpoint_every: float = 60.0,
    max_retries: int = -1,
    ray_options: Mapping[str, Any] | None = None,
) -> Experiment:
    """`nae_edge.reproduce` with one task per cell and seed; returns the table of all.

    Each model has a folder in `shared`. If a machine is lost, its task is repeated, up to `max_retries` times (-1: without
    limit), and continues from the model's last state, which is at most `checkpoint_every` seconds old. A cell that starts
    from another cell's network waits for it. Ctrl-C cancels the tasks; the same call continues them. `data` and `settings`
    are paths that every node sees; `ray_options` are those of `ray.remote`.
    """
    shared = _absolute("shared", shared)
    asked = {
        "scale": scale,
        "data": None if data is None else str(_absolute("data", data)),
        "settings": None if settings is None else str(_absolute("settings", settings)),
        "search": search,
        "checkpoint_every": checkpoint_every,
    }
    request = experiment_request(
        experiment, cells=cells, seeds=seeds, folder=shared, trace_outliers=False, threads=threads, bars=False, **asked
    )
    models = _native.cells(request) or [(None, seed, None) for seed in request["seeds"]]
    shared.mkdir(parents=True, exist_ok=True)
    options = {"num_cpus": threads, "max_retries": max_retries, **(ray_options or {})}
    task = ray.remote(**options)(_make)
    made: dict[tuple[str | None, int], Any] = {}
    folders: list[Path] = []
    for cell, seed, start in models:
        # The cell that this one starts from comes earlier in the list, so it has a task, or its model exists.
        first = made.get((start, 0)) if start is not None else None
        if start is not None and first is None and not _run_of(shared, start).is_dir():
            raise ValueError(
                f"cells: {cell} starts from the network of {start}, which is neither among them nor in {shared}; add it"
            )
        folder = shared / f"{cell or 'seed'}-{seed}"
        folders.append(folder)
        made[cell, seed] = task.remote(experiment, cell, seed, start, first, str(folder), threads, asked)
    _await(list(made.values()))
    return gather(*folders)


def _make(
    experiment: str,
    cell: str | None,
    seed: int,
    start: str | None,
    _first: object,
    folder: str,
    threads: int,
    asked: dict[str, Any],
) -> None:
    if start is not None:
        run = _run_of(Path(folder).parent, start)
        _bring(run, Path(folder) / run.name)
    cells = [] if cell is None else [cell]
    _reproduce(experiment, folder=folder, cells=cells, seeds=[seed], threads=threads, progress=False, **asked)


def _absolute(name: str, value: object) -> Path:
    """A path that other processes open too, whose current folder may be another one."""
    return Path(path(name, value)).absolute()


def _run_of(shared: Path, start: str) -> Path:
    """The run of seed 0 of the cell `start`, from whose network other cells start."""
    return shared / f"{start}-0" / f"{start}-0"


def _bring(run: Path, to: Path) -> None:
    """Copies the run that a model starts from beside the model, completely or not at all."""
    if to.exists():
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent) as temporary:
        copy = Path(temporary) / "run"
        shutil.copytree(run, copy)
        copy.rename(to)


def train_seeds(
    data: Any = None,
    *,
    seeds: int | Sequence[int],
    shared: str | os.PathLike[str],
    threads: int = 1,
    max_retries: int = -1,
    ray_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Experiment:
    """`nae_edge.train` with one task per seed; returns the table of all.

    `options` are those of `train`. Seeds can only be compared if they have the same schedule: give a `preset`, such as the
    config.toml of a first run, or `pretraining_updates` and `updates`; a `time_budget` depends on the machine. `data` in
    memory is sent to the nodes by Ray's object store; a path must be visible to every node. Run folders and models are in
    `shared`, as SEED and SEED/model.onnx; a repeated task continues from the state there, and so does a repeated call.

    Raises ValueError if `shared` has models of other data or other options.
    """
    _refuse(options, ("seed", "folder", "resume", "callback", "progress"), "it is given to each task")
    if data is not None and options.get("preset") is None and options.get("updates") is None:
        raise ValueError(
            "updates: expected with pretraining_updates, or a preset such as config.toml of a first run: a time budget "
            "gives each machine another schedule, and its seeds cannot be compared"
        )
    shared = _absolute("shared", shared)
    listed = listed_seeds(seeds)
    if not listed:
        raise ValueError(f"seeds: expected at least one seed, found {seeds!r}")
    # Two tasks would write to the same run folder.
    twice = next((seed for seed in listed if listed.count(seed) > 1), None)
    if twice is not None:
        raise ValueError(f"seeds: expected each seed once, found {twice} several times")
    if isinstance(data, (str, os.PathLike)):
        data = str(_absolute("data", data))
    _same_request(shared, data, options)
    if data is not None and not isinstance(data, str):
        data = ray.put(data)
    task = ray.remote(**{"num_cpus": threads, "max_retries": max_retries, **(ray_options or {})})(_train)
    folders = [shared / str(seed) for seed in listed]
    _await([task.remote(data, seed, str(at), threads, options) for seed, at in zip(listed, folders, strict=True)])
    return gather(*folders)


def _train(data: Any, seed: int, folder: str, threads: int, options: dict[str, Any]) -> None:
    model = Path(folder) / _MODEL
    # An earlier call trained it, or the machine was lost after the end of the task: `_same_request` has compared the calls.
    if model.exists():
        return
    trained = train(data, seed=seed, folder=folder, resume=True, threads=threads, progress=False, **options)
    part = model.with_suffix(".part")
    trained.save(part)
    part.replace(model)


def _same_request(shared: Path, data: Any, options: Mapping[str, Any]) -> None:
    """Records data and options of the call in `shared`; refuses those of another call, whose models would be returned."""
    layout, outliers = options.get("layout"), options.get("outliers")
    found = None if data is None else recognize(data, table=None)
    others = None if outliers is None else recognize(outliers, table=None, name="outliers")
    check_layout(layout, found, others)
    described = {name: _described(name, value) for name, value in options.items() if name != "checkpoint_every"}
    if others is not None:
        described["outliers"] = data_digest(others, layout)
    asked = {"data": None if found is None else data_digest(found, layout), "options": described}
    file = shared / _REQUEST
    if not file.exists():
        shared.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(json.dumps(asked, indent=1), "utf-8")
        part.replace(file)
        return
    recorded = json.loads(file.read_text("utf-8"))
    if recorded["data"] != asked["data"]:
        raise ValueError(f"shared: {shared} has models of other data; give another folder")
    for name in sorted({*recorded["options"], *asked["options"]}):
        before, now = recorded["options"].get(name), asked["options"].get(name)
        if before != now:
            raise ValueError(f"shared: {shared} has models with {name}={before}, not {now}; give another folder")


def _described(name: str, value: Any) -> str:
    if name == "preset" and isinstance(value, (str, os.PathLike)) and "\n" not in str(value):
        path = Path(value).expanduser()
        if path.is_file():
            return path.read_text("utf-8")
    return repr(value)


def _refuse(options: Mapping[str, Any], names: Sequence[str], why: str) -> None:
    refused = [name for name in names if name in options]
    if refused:
        raise TypeError(f"{refused[0]}: {why}; leave it out")


def _await(tasks: list[Any]) -> None:
    try:
        ray.get(tasks)
    except BaseException:
        for task in tasks:
            ray.cancel(task, force=True)
        raise


def trainable(data: Any = None, *, preset: str, threads: int = 1, **options: Any) -> Callable[[dict[str, Any]], None]:
    """Returns a function for `ray.tune.Tuner`. It trains `preset` with the changes in a trial's configuration, such as
    `{"training.learning_rate": tune.loguniform(1e-5, 1e-3)}`; the key `seed` is the seed of the run, as for `train`, and
    the option `seed` that of trials without this key.

    It reports every look at the model, with `training_iteration` and the update, for schedulers such as ASHA. The figures
    are those of `LABEL_FREE`, none of them of an outlier set, so that no setting is chosen by the outliers that a model is
    evaluated on. `data` and `options` are those of `train`; `changes` among them apply to all trials.
    """
    _refuse(options, ("outliers", "callback", "folder", "progress"), "settings are chosen without it")
    base = dict(options.pop("changes", None) or {})
    default = options.pop("seed", None)
    default = None if default is None else whole("seed", default)

    def trial(config: dict[str, Any]) -> None:
        from ray import tune

        changes = {**base, **config}
        seed = changes.pop("seed", default)
        seed = None if seed is None else int(seed)

        def report(event: dict[str, Any]) -> None:
            if event["phase"] == "look":
                tune.report({"update": event["step"], **{name: event[name] for name in LABEL_FREE if name in event}})

        train(
            data, preset=preset, changes=changes, seed=seed, threads=threads, callback=report, progress=False, **options
        )

    return trial
