"""A model file that scores: `Detector`, and what it finds, `Scores`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._inputs import Columns, Encoded, Files, Images, recognise


@dataclass(frozen=True, eq=False)
class Scores:
    """What is known of N samples."""

    #: float32 [N]: the higher, the less normal.
    energies: npt.NDArray[np.float32]
    #: float32 [N], in (0, 1]: the share of normal samples at least as strange; None for a model without calibration.
    p_values: npt.NDArray[np.float32] | None
    #: bool [N]: True for an anomaly, an energy above the threshold; None for a model without a threshold.
    verdicts: npt.NDArray[np.bool_] | None
    #: float32 [N, D]; None where the model gives none out, or they were not asked for.
    latents: npt.NDArray[np.float32] | None = field(repr=False)
    #: float32 [N, H, W], each pixel's part in the energy; of a table [N, 1, columns]. A list of [H, W] where a model of
    #: tiles scored images of several sizes; None where they were not asked for.
    heat_maps: npt.NDArray[np.float32] | list[npt.NDArray[np.float32]] | None = field(repr=False)
    #: What each sample is called, where it came from a file or is a window of rows; else None.
    names: list[str] | None = field(repr=False, default=None)

    def __len__(self) -> int:
        return len(self.energies)


class Detector:
    """A model that scores images or rows. It does not change, and several threads may share it."""

    def __init__(self, native: _native.Detector, options: dict[str, Any]) -> None:
        self._native = native
        self._options = options

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        threads: int | None = None,
        backend: str | None = None,
        false_positive_rate: float | None = None,
        threshold: float | None = None,
    ) -> Detector:
        """Opens an .onnx or .nae file.

        `threads` share the samples of a call, as many as there are processors where it is not given. `backend` is simd,
        tract, native or auto. `false_positive_rate`, in (0, 1), or `threshold`, an energy, takes the place of the
        model's threshold.

        Raises OSError where the file cannot be read, ValueError where it is no model that can be scored with.
        """
        options = _options(threads, backend, false_positive_rate, threshold)
        return cls(_native.Detector.open(path, options), options)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        name: str | os.PathLike[str] = "model",
        *,
        threads: int | None = None,
        backend: str | None = None,
        false_positive_rate: float | None = None,
        threshold: float | None = None,
    ) -> Detector:
        """As `open`, from a file in memory, which messages call `name`."""
        options = _options(threads, backend, false_positive_rate, threshold)
        return cls(_native.Detector.from_bytes(bytes(data), name, options), options)

    def score(
        self, data: Any, *, layout: str | None = None, latents: bool = True, heat_maps: bool = True
    ) -> Scores:
        """Scores images or rows; the interpreter's lock is let go meanwhile.

        A model of images takes arrays of uint8, or of float32 or float64 from 0 to 1, of any size; Pillow images; paths
        of PNG, JPEG, BMP, TIFF, WebP, PNM and .npy files; the bytes of such files; and lists of these. The axes of an array are [H, W]; [H, W, C] where the last
        of three is 1 or 3, [N, H, W] otherwise; [N, C, H, W] or [N, H, W, C] by which of them is 1 or 3. What can be
        read in two ways is a ValueError that says so: give `layout`, one of HW, HWC, CHW, NHW, NHWC and NCHW. float32
        [N, C, H, W] of the network's own size and range is not copied.

        A model of a table takes arrays [N, columns], DataFrames of pandas and polars, Arrow tables, and paths of .csv
        and .tsv files; columns are found by their names where they have any.

        `latents` and `heat_maps` say whether these are kept; they are most of the memory of many samples.
        """
        found = recognise(data, table=self._native.takes_tables)
        if layout is not None and not isinstance(found, Images):
            raise ValueError("layout: it is of arrays of images; leave it out, or give the array (numpy.load)")
        if isinstance(found, Files):
            fields = self._native.score_files(found.paths, latents, heat_maps)
        elif isinstance(found, Encoded):
            fields = self._native.score_encoded(found.contents, latents, heat_maps)
        elif isinstance(found, Images):
            fields = self._native.score_images(found.arrays, found.several, layout, latents, heat_maps)
        elif isinstance(found, Columns):
            fields = self._native.score_columns(found.names, found.columns, latents, heat_maps)
        else:
            fields = self._native.score_matrix(found.values, None, latents, heat_maps)
        fields["names"] = fields["names"] or None
        return Scores(**fields)

    def with_false_positive_rate(self, rate: float) -> Detector:
        """The same model with the threshold that its calibration gives for `rate`, in (0, 1)."""
        options = {**self._options, "false_positive_rate": float(rate), "threshold": None}
        return type(self)(self._native.with_false_positive_rate(float(rate)), options)

    @property
    def threshold(self) -> float | None:
        """The energy above which a sample is an anomaly."""
        return self._native.threshold

    @property
    def false_positive_rate(self) -> float | None:
        """The share of normal samples above the threshold, at most, on average."""
        return self._native.false_positive_rate

    @property
    def metadata(self) -> dict[str, str]:
        """What the file says of itself: what `nae-infer inspect` prints."""
        return self._native.metadata

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of the network's input."""
        return self._native.input_shape

    @property
    def backend(self) -> str:
        """What reconstructs."""
        return self._native.backend

    def to_bytes(self) -> bytes:
        """The model file. A threshold chosen here is not in it."""
        return self._native.to_bytes()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file. A threshold chosen here is not in it."""
        Path(path).write_bytes(self.to_bytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.to_bytes(), os.fspath(self._native.path), self._options)

    def __repr__(self) -> str:
        shape = "×".join(str(extent) for extent in self.input_shape)
        name = os.fspath(self._native.path)
        return f"<Detector {name}: {shape} (C×H×W), threshold {self.threshold}, {self.backend}>"


def _options(
    threads: int | None, backend: str | None, false_positive_rate: float | None, threshold: float | None
) -> dict[str, Any]:
    return {
        "threads": threads,
        "backend": backend,
        "false_positive_rate": false_positive_rate,
        "threshold": threshold,
    }


def _restore(data: bytes, name: str, options: dict[str, Any]) -> Detector:
    return Detector.from_bytes(data, name, **options)
