"""Normalized autoencoders: anomaly detectors for images and tables.

`Detector` scores with a model file, `train` makes one, `NormalizedAutoencoderDetector` is a detector in the manner of
scikit-learn. `reproduce` makes the paper's experiments, `gather` puts what several machines have made into one table, and
`nae_edge.ray` gives such work to a Ray cluster. What cannot be used is a `ValueError` or `TypeError` that says what was expected, what was found and what
to do; a file that cannot be read is an `OSError`.
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
    # scikit-learn takes a second to import, and is there for this class alone.
    if name == "NormalizedAutoencoderDetector":
        try:
            from ._estimator import NormalizedAutoencoderDetector
        except ModuleNotFoundError as error:
            raise ImportError(f"{name} needs scikit-learn ({error}): pip install 'nae-edge[sklearn]'") from error
        return NormalizedAutoencoderDetector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
