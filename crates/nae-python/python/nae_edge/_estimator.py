"""A detector with scikit-learn's interface and the attributes of PyOD's detectors."""

from __future__ import annotations

import tempfile
import warnings
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _native
from ._detector import Detector
from ._files import as_path, write_columns
from ._inputs import Columns, Images, about, named, numbered, recognize, unmasked, whole_labels
from ._training import in_memory, request

# With fewer, the trainer has none to calibrate on.
_FEWEST = 50
_ENERGIES = {"latents": False, "heat_maps": False, "errors": False}


class NormalizedAutoencoderDetector(OutlierMixin, BaseEstimator):
    """A normalized autoencoder as an outlier detector.

    Parameters
    ----------
    contamination : "auto" or float in (0, 0.5]
        The share of outliers in the training data. With "auto" all training data count as normal, and the threshold is
        the model's own, calibrated on a tenth of the data that is not trained on.
    pretraining_updates, updates : int
        Updates of the autoencoder in pre-training, and updates in NAE training. The same numbers give the same model,
        whatever the number of processors.
    time_budget : float or None
        Seconds for `fit`, instead of the numbers of updates. The schedule then depends on the machine's speed, and the
        result cannot be repeated exactly.
    random_state : int, RandomState or None
        The seed. Two calls of `fit` with the same int give the same model.
    threads : int or None
        The number of threads; None for the number of processors.

    Attributes
    ----------
    detector_ : Detector
        The model: `detector_.save(path)` exports it, `detector_.score(X)` returns p-values and heat maps, and verdicts by the
        same threshold as `predict`. A model file has the calibrated threshold only: with a number as `contamination`, open it
        by `Detector.open(path, threshold=estimator.threshold_)`.
    offset_ : float
        `decision_function(X)` is `score_samples(X) - offset_`.
    n_features_in_ : int
        The number of columns; for images, of values in an image.
    warnings_ : list of str
        Warnings about data and model, such as columns that were left out. `fit` also issues them by `warnings.warn`.
    image_shape_ : tuple or None
        The axes of an image; None for tables.
    decision_scores_, labels_, threshold_
        As in PyOD, where larger means more of an outlier: the energies of the training data, 1 for those above the
        threshold (else 0), and the threshold. `decision_function` and `predict` follow scikit-learn, whose signs are
        opposite.

    Notes
    -----
    An array of two axes is a table; of three axes, grey images [N, H, W]; of four axes, images [N, H, W, C] or
    [N, C, H, W]. Images are uint8, or floats from 0 to 1. Fewer than 50 samples are repeated until there are 50, with a
    warning, since the threshold is then unreliable.
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "contamination": [StrOptions({"auto"}), Interval(Real, 0, 0.5, closed="right")],
        "pretraining_updates": [Interval(Integral, 1, None, closed="left")],
        "updates": [Interval(Integral, 1, None, closed="left")],
        "time_budget": [None, Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "threads": [None, Interval(Integral, 1, None, closed="left")],
    }

    detector_: Detector
    offset_: float
    warnings_: list[str]
    n_features_in_: int
    image_shape_: tuple[int, ...] | None
    decision_scores_: npt.NDArray[np.float64]
    labels_: npt.NDArray[np.int64]
    threshold_: float
    # The labels of a DataFrame whose columns have whole numbers, from 0, in place of names.
    _labels: list[int] | None = None

    def __init__(
        self,
        *,
        contamination: str | float = "auto",
        pretraining_updates: int = 3000,
        updates: int = 500,
        time_budget: float | None = None,
        random_state: Any = None,
        threads: int | None = None,
    ) -> None:
        self.contamination = contamination
        self.pretraining_updates = pretraining_updates
        self.updates = updates
        self.time_budget = time_budget
        self.random_state = random_state
        self.threads = threads

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: object = None) -> NormalizedAutoencoderDetector:
        """Trains on X, [samples, columns] or images. `y` is ignored."""
        samples = self._checked(X, reset=True)
        few = _FEWEST // len(samples) + 1 if len(samples) < _FEWEST else 1
        if few > 1:
            warnings.warn(
                f"{len(samples)} samples are too few to keep some for the calibration: they are repeated {few} times, and "
                f"the threshold says little; give {_FEWEST} or more",
                stacklevel=2,
            )
        repeated = np.concatenate([samples] * few) if few > 1 else samples
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        result = self._train(repeated, seed)
        self.detector_ = Detector.from_bytes(result["model"], "fitted model", threads=self.threads)
        self.warnings_ = list(result["warnings"])
        for warning in self.warnings_:
            warnings.warn(warning, stacklevel=2)
        self.decision_scores_ = self._energies(samples)
        if self.contamination == "auto":
            threshold = self.detector_.threshold
            # The trainer exports no model without a threshold.
            self.offset_ = -float("inf") if threshold is None else -float(threshold)
        else:
            self.offset_ = float(np.percentile(-self.decision_scores_, 100.0 * float(self.contamination)))
            # Rounded down to float32, as energies are, so that the same energies are above it.
            threshold = np.float32(-self.offset_)
            if threshold > -self.offset_:
                threshold = np.nextafter(threshold, np.float32(-np.inf))
            options = {"threads": self.threads, "threshold": float(threshold)}
            self.detector_ = Detector.from_bytes(result["model"], "fitted model", **options)
        self.threshold_ = -self.offset_
        self.labels_ = (self.decision_scores_ > self.threshold_).astype(np.int64)
        if result["keyboard"]:
            # The fitted attributes are usable; raising ends a search over many fits, too.
            raise KeyboardInterrupt
        return self

    def score_samples(self, X: Any) -> npt.NDArray[np.float64]:
        """The negative energy of each sample. The lower, the less normal."""
        check_is_fitted(self)
        return -self._energies(self._checked(X, reset=False))

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """`score_samples(X) - offset_`, negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """-1 for outliers, 1 for normal samples."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _train(self, samples: npt.NDArray[Any], seed: int) -> dict[str, Any]:
        by_time = self.time_budget is not None
        with tempfile.TemporaryDirectory(prefix="nae-edge-") as name, in_memory(Path(name)):
            folder = Path(name)
            if samples.ndim == 2:
                names, columns = self._names(samples), list(np.asarray(samples, np.float64).T)
                data = write_columns(Columns(names, columns), folder / "data.csv")
            else:
                data = as_path(recognize(samples, table=False), folder, "data", _layout(samples))
            asked = request(
                data=data,
                seed=seed,
                time_budget=self.time_budget,
                pretraining_updates=None if by_time else self.pretraining_updates,
                updates=None if by_time else self.updates,
                threads=self.threads,
                folder=folder / "run",
            )
            return _native.train(asked, None)

    def _energies(self, samples: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        if samples.ndim == 2:
            matrix = np.require(samples, np.float64, ["C_CONTIGUOUS", "ALIGNED"])
            found = self.detector_._native.score_matrix(matrix, self._names(samples), _ENERGIES)
            return found["energies"].astype(np.float64)
        found = self.detector_.score(samples, layout=_layout(samples), latents=False, heat_maps=False)
        return found.energies.astype(np.float64)

    def _names(self, samples: npt.NDArray[Any]) -> list[str]:
        """The model's names of the columns: those of the DataFrame that was fitted on, as `Detector.score` reads them."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return numbered(label + 1 for label in self._fitted_labels(samples))
        return named(list(names))

    def _fitted_labels(self, samples: npt.NDArray[Any]) -> list[int]:
        return list(range(samples.shape[1])) if self._labels is None else self._labels

    def _in_order(self, samples: npt.NDArray[Any], labels: list[int] | None) -> npt.NDArray[Any]:
        """The columns of `samples` in the order of those that were fitted on, found by whole numbers as labels."""
        if labels is None or hasattr(self, "feature_names_in_"):
            return samples
        fitted = self._fitted_labels(samples)
        if sorted(labels) != sorted(fitted):
            raise ValueError(
                f"X: expected the columns {fitted}, as in fit, found {labels}; give a DataFrame with these labels, or an "
                "array with the columns in this order"
            )
        return samples if labels == fitted else samples[:, [labels.index(label) for label in fitted]]

    def _checked(self, X: Any, *, reset: bool) -> npt.NDArray[Any]:
        if getattr(X, "ndim", None) in (3, 4):
            return self._checked_images(X, reset=reset)
        if not reset and self.image_shape_ is not None:
            raise ValueError(f"expected images of shape {self.image_shape_} each, found a table")
        if reset:
            self.image_shape_ = None
        if isinstance(X, np.ma.MaskedArray):
            with about("X"):
                X = unmasked(X, table=True)
        # The trainer needs a second column for anything to depend on anything.
        samples = validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_min_samples=2 if reset else 1,
            ensure_min_features=2 if reset else 1,
        )
        if not reset:
            return self._in_order(samples, whole_labels(X))
        self._labels = whole_labels(X)
        return samples

    def _checked_images(self, X: Any, *, reset: bool) -> npt.NDArray[Any]:
        if not reset and self.image_shape_ is None:
            raise ValueError("expected a table [samples, columns], found images")
        found = recognize(X, table=False, name="X")
        if not isinstance(found, Images) or len(found.arrays[0]) == 0:
            raise ValueError("expected at least one image, found none")
        images = found.arrays[0]
        shape = images.shape[1:]
        if reset:
            self.image_shape_ = shape
            self.n_features_in_ = int(np.prod(shape))
            self._labels = None
            # An earlier fit on a table has set these names.
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        elif shape != self.image_shape_:
            raise ValueError(f"expected images of shape {self.image_shape_} each, found {shape}")
        return images


def _layout(samples: npt.NDArray[Any]) -> str | None:
    """Three axes are grey images, also where the last could be one of channels."""
    return "NHW" if samples.ndim == 3 else None
