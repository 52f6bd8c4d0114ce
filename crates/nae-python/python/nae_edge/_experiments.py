"""The paper's experiments in this process, and one table of what several folders have."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _native
from ._training import Callback


@dataclass(frozen=True)
class Experiment:
    """What was found."""

    #: The table, as the command line prints it.
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
    """Makes an experiment of the paper, as `nae-train reproduce` does, or what `folder` does not have of it yet.

    `scale` is smoke, cpu or paper; `cells` are names of its cells, all where there is none; `seeds` is their number, or
    a list. `data` is the folder that has the data sets (NAE_DATA without); `settings` a file in place of the paper's.
    With `search`, D_z and weights of penalties are chosen by the selection set, as in the paper.
    `callback` and `checkpoint_every` are those of `train`; `gaussians8` takes no callback.

    Raises ValueError, TypeError or OSError with the text of the command line's error, what the callback raises, RuntimeError where it
    returns False, and KeyboardInterrupt at Ctrl-C: the same call goes on where it was.
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
        bars=progress,
    )
    figures, table = _native.reproduce(asked, callback)
    return Experiment(table, json.loads(figures))


def gather(*folders: str | os.PathLike[str]) -> Experiment:
    """One table of what `folders` have, as `nae-train gather` does: each of an experiment, or of a run, or one that
    holds such folders. A run that has not ended is left out, with a warning.

    Raises ValueError where folders do not belong together: other settings, data, scale, device or program version.
    """
    figures, table, unfinished = _native.gather(folders)
    for run in unfinished:
        warnings.warn(f"{run}: the run has not ended, and is not in the table", stacklevel=2)
    return Experiment(table, json.loads(figures))


def experiment_request(experiment: str, *, seeds: int | Sequence[int], cells: Sequence[str], **asked: Any) -> dict[str, Any]:
    """What `_native.reproduce` and `_native.cells` take."""
    return {"experiment": experiment, "seeds": listed_seeds(seeds), "cells": list(cells), **asked}


def listed_seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds, of their number or of a list."""
    return list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
