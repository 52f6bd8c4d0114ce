"""Normalized autoencoders: anomaly detectors for images and tables.

`Detector` scores with a model file, `train` trains a model, and `NormalizedAutoencoderDetector` has scikit-learn's
interface. `reproduce` runs the paper's experiments, `gather` collects the results of several machines in one table, and
`nae_edge.ray` distributes such work over a Ray cluster. Invalid arguments raise `ValueError` or `TypeError`, with what was
expected, what was found and what to do; a file that cannot be read raises `OSError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._detector import Detector, Scores
from ._experiments import Experiment, gather, reproduce
from ._native import __version__
from ._training import Report, TrainedModel, train

if TYPE_CHECKING:
    from ._estimator import NormalizedAutoencoderDetector

__all__ = [
    "Detector",
    "Experiment",
    "NormalizedAutoencoderDetector",
    "Report",
    "Scores",
    "TrainedModel",
    "__version__",
    "gather",
    "reproduce",
    "train",
]


def __getattr__(name: str) -> Any:
    # scikit-learn takes a second to import, and only this class needs it.
    if name == "NormalizedAutoencoderDetector":
        try:
            from ._estimator import NormalizedAutoencoderDetector
        except ModuleNotFoundError as error:
            raise ImportError(f"{name} needs scikit-learn ({error}): pip install 'nae-edge[sklearn]'") from error
        return NormalizedAutoencoderDetector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
