"""Work over the machines of a Ray cluster: many samples scored, many seeds, cells and settings trained.

Ray does what a cluster is for: it places work, moves data, and does again what a lost machine had. One model trains on one
machine; what is shared out are whole models and batches. `pip install 'nae-edge[ray]'`; docs/cluster.md says when it pays.

Every node needs this package. Training also needs `shared`, a folder that all nodes see under the same path (NFS, EFS, a
mounted bucket): each model has a run folder in it, and a task that is done again goes on from the state there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native
from ._detector import Detector
from ._experiments import Experiment, experiment_request, gather, listed_seeds
from ._experiments import reproduce as _reproduce
from ._training import train

try:
    import ray
except ModuleNotFoundError as error:
    raise ImportError(f"nae_edge.ray needs Ray ({error}): pip install 'nae-edge[ray]'") from error

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["Scorer", "reproduce", "score", "train_seeds", "trainable"]

_OUTPUTS = ("energy", "p_value", "anomaly", "latent", "heat_map")
_MODEL = "model.onnx"

# What a run says of itself without outliers: only these may choose among settings.
LABEL_FREE = ("selection_auroc", "validation_energy", "positive_energy", "negative_energy")


class Scorer:
    """A detector for `Dataset.map_batches`, which makes one in each of its actors.

    `model` is a path that every node sees, or the bytes of a model file. A batch, of NumPy or Arrow, comes back with the
    columns `outputs` beside its own: `energy`, `p_value` and `anomaly` as in `Scores`, and on demand `latent` and
    `heat_map`. A model of images scores the column `column`, `image` or the only one without: arrays, of one size or of
    several, or bytes of image files; a model of a table finds its columns by their names.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        column: str | None = None,
        layout: str | None = None,
        outputs: Sequence[str] = ("energy", "p_value", "anomaly"),
        threads: int = 1,
        **options: Any,
    ) -> None:
        unknown = [name for name in outputs if name not in _OUTPUTS]
        if unknown or not outputs:
            raise ValueError(f"outputs: expected some of {', '.join(_OUTPUTS)}, found {list(outputs)}")
        if isinstance(model, bytes):
            self.detector = Detector.from_bytes(model, threads=threads, **options)
        else:
            self.detector = Detector.open(model, threads=threads, **options)
        self._column, self._layout, self._outputs = column, layout, tuple(outputs)
        self._takes_tables = self.detector._native.takes_tables

    def __call__(self, batch: Any) -> Any:
        is_arrow = type(batch).__module__.partition(".")[0] == "pyarrow"
        names = list(batch.column_names) if is_arrow else list(batch)
        samples = self._table(batch) if self._takes_tables else self._images(batch, names, is_arrow)
        wants = self._outputs
        scores = self.detector.score(
            samples,
            layout=None if self._takes_tables else self._layout,
            latents="latent" in wants,
            heat_maps="heat_map" in wants,
        )
        count = batch.num_rows if is_arrow else len(batch[names[0]])
        if len(scores) != count:
            raise ValueError(f"expected one sample a row of the dataset: {count} rows gave {len(scores)} energies")
        found = {
            "energy": scores.energies,
            "p_value": scores.p_values,
            "anomaly": scores.verdicts,
            "latent": scores.latents,
            "heat_map": scores.heat_maps,
        }
        for name in wants:
            if found[name] is None:
                raise ValueError(f"outputs: {name}: the model does not give it; leave it out")
        if not is_arrow:
            return {**batch, **{name: found[name] for name in wants}}
        import pyarrow

        for name in wants:
            values = found[name]
            flat = values if getattr(values, "ndim", 2) == 1 else [np.asarray(value).tolist() for value in values]
            batch = batch.append_column(name, pyarrow.array(flat))
        return batch

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
        images = batch.column(column).to_pylist() if is_arrow else batch[column]
        if isinstance(images, np.ndarray) and images.dtype != object:
            return images
        items = list(images)
        if items and not isinstance(items[0], (bytes, bytearray)):
            # Arrow has nested lists, NumPy objects where sizes differ.
            items = [_array(item) for item in items]
        return items


def _array(item: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(item)
    # Lists do not say what they are of: whole numbers are bytes, others lie between 0 and 1.
    return array.astype(np.uint8 if array.dtype.kind in "iu" else np.float32, copy=False)


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
    """`dataset` with energies: `Scorer` in every batch, one detector and one thread an actor.

    The model file is read here, and goes to the nodes with the actors. `concurrency` is the number of actors, or the least
    and the most; as many as the cluster has processors without. `options` are those of `Scorer`, `ray_options` those of
    `Dataset.map_batches`. Rows keep their order where
    `ray.data.DataContext.get_current().execution_options.preserve_order` is set.
    """
    content = model if isinstance(model, bytes) else Path(model).read_bytes()
    # A model or an option that cannot be used is said here, not in an actor's log.
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
    """`nae_edge.reproduce` with a task for every cell and seed, and the table of all.

    Each model has a folder in `shared`; a task whose machine is lost is done again, `max_retries` times (-1: always), and
    goes on from the model's last state, at most `checkpoint_every` seconds old. A cell that starts from another's network
    waits for it. At Ctrl-C the tasks are cancelled, and the same call goes on. `data` and `settings` are paths that every node sees;
    `ray_options` are those of `ray.remote`.
    """
    shared = Path(shared).absolute()
    asked = {
        "scale": scale,
        "data": None if data is None else str(Path(data).absolute()),
        "settings": None if settings is None else str(Path(settings).absolute()),
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
        # The network to start from is of a cell further up, which has a task by now, or was made before.
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


def _run_of(shared: Path, start: str) -> Path:
    """The run that others start from: of seed 0, in the folder of its own piece."""
    return shared / f"{start}-0" / f"{start}-0"


def _bring(run: Path, to: Path) -> None:
    """The run that a model starts from, beside it; whole or not at all."""
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
    """`nae_edge.train` with a task for every seed, and the table of all.

    `options` are those of `train`. So that seeds can be compared, they have to train alike: give a `preset`, such as the
    config.toml of a first run, or `pretraining_updates` and `updates`; a `time_budget` depends on the machine. `data` in
    memory goes to the nodes by Ray's object store; a path has to be one that every node sees. Run folders and models are
    in `shared`, as SEED and SEED/model.onnx; a task that is done again goes on from the state there.
    """
    _refuse(options, ("seed", "folder", "resume", "callback", "progress"), "it is given to each task")
    if data is not None and options.get("preset") is None and options.get("updates") is None:
        raise ValueError(
            "updates: expected with pretraining_updates, or a preset such as config.toml of a first run: a time budget "
            "gives each machine another schedule, and its seeds cannot be compared"
        )
    shared = Path(shared).absolute()
    shared.mkdir(parents=True, exist_ok=True)
    listed = listed_seeds(seeds)
    if isinstance(data, (str, os.PathLike)):
        data = str(Path(data).absolute())
    elif data is not None:
        data = ray.put(data)
    task = ray.remote(**{"num_cpus": threads, "max_retries": max_retries, **(ray_options or {})})(_train)
    folders = [shared / str(seed) for seed in listed]
    _await([task.remote(data, seed, str(at), threads, options) for seed, at in zip(listed, folders, strict=True)])
    return gather(*folders)


def _train(data: Any, seed: int, folder: str, threads: int, options: dict[str, Any]) -> None:
    model = Path(folder) / _MODEL
    # Done again though it had ended: its machine was lost before it could say so.
    if model.exists():
        return
    trained = train(data, seed=seed, folder=folder, resume=True, threads=threads, progress=False, **options)
    part = model.with_suffix(".part")
    trained.save(part)
    part.replace(model)


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
    """A function for `ray.tune.Tuner` that trains `preset` with the keys of a trial's configuration changed, such as
    `{"training.learning_rate": tune.loguniform(1e-5, 1e-3)}`; `seed` is the run's.

    It reports every look at the model, with `training_iteration` and the update, for schedulers such as ASHA: the signals
    of `LABEL_FREE`, and no figure of an outlier set, so that nothing is chosen by the outliers that a model is judged on.
    `data` and `options` are those of `train`, among them `changes` that are alike for all trials.
    """
    _refuse(options, ("outliers", "callback", "folder", "progress"), "settings are chosen without it")
    base = dict(options.pop("changes", None) or {})

    def trial(config: dict[str, Any]) -> None:
        from ray import tune

        changes = {**base, **config}
        seed = int(changes.pop("seed", 0))

        def report(event: dict[str, Any]) -> None:
            if event["phase"] == "look":
                tune.report({"update": event["step"], **{name: event[name] for name in LABEL_FREE if name in event}})

        train(
            data, preset=preset, changes=changes, seed=seed, threads=threads, callback=report, progress=False, **options
        )

    return trial
