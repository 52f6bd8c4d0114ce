"""The paper's experiments in this process, and one table of the results in several folders."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from . import _native
from ._arguments import checked, path, whole
from ._training import Callback


@dataclass(frozen=True)
class Experiment:
    """The results of an experiment."""

    #: The table as text, as the command line prints it.
    table: str = field(repr=False)
    #: The figures, as `--json` prints them.
    figures: dict[str, Any]

    def __str__(self) -> str:
        return self.table


def reproduce(
    experiment: str,
    *,
    folder: str | os.PathLike[str],
    scale: str = "cpu",
    cells: Sequence[str] = (),
    seeds: int | Sequence[int] = 3,
    data: str | os.PathLike[str] | None = None,
    settings: str | os.PathLike[str] | None = None,
    search: bool = False,
    trace_outliers: bool = False,
    threads: int | None = None,
    checkpoint_every: float = 60.0,
    callback: Callback | None = None,
    progress: bool = True,
) -> Experiment:
    """Runs an experiment of the paper, as `nae-train reproduce` does. Models that `folder` already has are not trained again.

    `scale` is smoke, cpu or paper. `cells` are names of cells of the experiment; without names, all of them. `seeds` is the
    number of seeds, or a list of seeds. `data` is the folder of the data sets (default: the environment variable NAE_DATA).
    `settings` is a file of settings that replaces the paper's. With `search`, the latent dimension D_z and the weights of
    penalties are chosen by the selection set, as in the paper. `callback` and `checkpoint_every` are those of `train`;
    `gaussians8` takes no callback.

    Raises ValueError, TypeError or OSError with the command line's message; what the callback raises; RuntimeError if the
    callback returns False; KeyboardInterrupt at Ctrl-C. The same call then continues where this one stopped.
    """
    asked = experiment_request(
        experiment,
        folder=folder,
        scale=scale,
        cells=cells,
        seeds=seeds,
        data=data,
        settings=settings,
        search=search,
        trace_outliers=trace_outliers,
        threads=threads,
        checkpoint_every=checkpoint_every,
        bars=checked({"progress": progress})["progress"],
    )
    figures, table = _native.reproduce(asked, callback)
    return Experiment(table, json.loads(figures))


def gather(*folders: str | os.PathLike[str]) -> Experiment:
    """Collects the results of `folders` in one table, as `nae-train gather` does. Each is the folder of an experiment or of a
    run, or contains such folders. A run that has not ended is left out, with a warning.

    Raises ValueError if the folders differ in settings, data, scale, device or program version.
    """
    figures, table, unfinished = _native.gather([path("folders", folder) for folder in folders])
    for run in unfinished:
        warnings.warn(f"{run}: the run has not ended, and is not in the table", stacklevel=2)
    return Experiment(table, json.loads(figures))


def experiment_request(experiment: str, *, seeds: int | Sequence[int], cells: Sequence[str], **asked: Any) -> dict[str, Any]:
    """The argument of `_native.reproduce` and `_native.cells`."""
    request = checked({"experiment": experiment, "cells": cells, **asked})
    return {**request, "seeds": listed_seeds(seeds)}


def listed_seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds 0 to `seeds` - 1, or those of a list."""
    if isinstance(seeds, Integral):
        return list(range(whole("seeds", seeds)))
    if isinstance(seeds, (str, bytes)) or not isinstance(seeds, Iterable):
        raise TypeError(f"seeds: expected a number of seeds, or a list of whole numbers, found {seeds!r}")
    return [whole("seeds", seed) for seed in seeds]
