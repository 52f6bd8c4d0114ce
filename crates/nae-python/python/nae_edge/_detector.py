"""`Detector`, a model that scores samples, and `Scores`, its result."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._arguments import checked, number
from ._arguments import path as checked_path
from ._inputs import Columns, Encoded, Files, Images, Input, recognize


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of N samples.

    A sample in `errors` has NaN in all arrays of numbers, and False in `verdicts`.
    """

    #: float32 [N]: the reconstruction error. The higher, the less normal.
    energies: npt.NDArray[np.float32]
    #: float32 [N], in (0, 1]: the conformal p-value, the share of normal samples with at least this energy. None for a model
    #: without calibration.
    p_values: npt.NDArray[np.float32] | None
    #: bool [N]: True for an anomaly, an energy above the threshold. None for a model without a threshold.
    verdicts: npt.NDArray[np.bool_] | None
    #: float32 [N, D]: the latent vectors. None where the model has no such output, as a model of tiles, and with
    #: `latents=False`.
    latents: npt.NDArray[np.float32] | None = field(repr=False)
    #: float32 [N, H, W]: each pixel's contribution to the energy; for a table [N, columns, 1], for windows of its rows
    #: [N, rows, columns]. A list of arrays [H, W] where a model of tiles scored images of several sizes or none, empty ones
    #: for samples in `errors`. None with `heat_maps=False`.
    heat_maps: npt.NDArray[np.float32] | list[npt.NDArray[np.float32]] | None = field(repr=False)
    #: The name of each sample: the file, the file and the line of a table, or the first and last row of a window. None for
    #: arrays in memory.
    names: list[str] | None = field(repr=False, default=None)
    #: With `errors="coerce"`: the samples that could not be scored, by position, and the message of each.
    errors: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.energies)


class Detector:
    """A model that scores images or rows of a table. It is immutable; several threads may use it at the same time."""

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

        `threads` is the number of threads that score the samples of a call (default: the number of processors). `backend`
        is simd, tract, native or auto. The threshold is the model's own, unless `false_positive_rate`, in (0, 1), or
        `threshold`, an energy, is given.

        Raises OSError if the file cannot be read, ValueError if it is not a model that this package can run.
        """
        options = _options(threads, backend, false_positive_rate, threshold)
        return cls(_native.Detector.open(checked_path("path", path), options), options)

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
        """The same for the contents of a file. `name` stands for the file in error messages."""
        options = _options(threads, backend, false_positive_rate, threshold)
        return cls(_native.Detector.from_bytes(bytes(data), name, options), options)

    def score(
        self,
        data: Any,
        *,
        layout: str | None = None,
        latents: bool = True,
        heat_maps: bool = True,
        errors: str = "raise",
    ) -> Scores:
        """Scores images or rows of a table. Other Python threads run meanwhile.

        A model of images takes arrays of uint8, or of float32 or float64 from 0 to 1, of any size; Pillow images; paths
        of PNG, JPEG, BMP, TIFF, WebP, PNM and .npy files; the bytes of such files; and lists of these. An array has the axes
        [H, W]; [H, W, C] if the last of three is 1 or 3, else [N, H, W]; [N, C, H, W] or [N, H, W, C], depending on which of
        the two is 1 or 3. If both readings are possible, the ValueError says so: give `layout`, one of HW, HWC, CHW, NHW,
        NHWC and NCHW. A float32 array [N, C, H, W] of the network's own size and range is not copied.

        A model of a table takes arrays [N, columns], DataFrames of pandas and polars, Arrow tables, and paths of .csv
        and .tsv files. If the columns have names, they are matched by name.

        With `latents=False` and `heat_maps=False` these are not kept. For many samples they take most of the memory.

        With `errors="coerce"` a sample that cannot be scored, such as a damaged file or a None in a list, has the energy NaN,
        and `Scores.errors` has its message. A sample of a table is a row or window, not a file: a .csv file that cannot be
        read is an exception also then. With "raise" the call raises ValueError or TypeError, or OSError for a file that
        cannot be read. Ctrl-C raises KeyboardInterrupt between batches.
        """
        asked = checked({"layout": layout, "latents": latents, "heat_maps": heat_maps})
        keep = {"latents": asked["latents"], "heat_maps": asked["heat_maps"], "errors": keeps_errors(errors)}
        found = recognize(data, table=self._native.takes_tables, coerce=keep["errors"])
        if layout is not None and not isinstance(found, Images):
            raise ValueError("layout: it is for arrays of images; leave it out, or give the array (numpy.load)")
        return self._scored(found, layout, keep)

    def _scored(self, found: Input, layout: str | None, keep: dict[str, bool]) -> Scores:
        if isinstance(found, Files):
            fields = self._native.score_files(found.paths, keep, found.problems)
        elif isinstance(found, Encoded):
            fields = self._native.score_encoded(found.contents, keep, found.problems)
        elif isinstance(found, Images):
            fields = self._native.score_images(found.arrays, found.several, layout, keep, found.problems)
        elif isinstance(found, Columns):
            if found.others:
                found = found.named_like(self.metadata.get("columns", ()))
            fields = self._native.score_columns(found.names, found.columns, keep)
        else:
            fields = self._native.score_matrix(found.values, None, keep)
        fields["names"] = fields["names"] or None
        return Scores(**fields)

    def with_false_positive_rate(self, rate: float) -> Detector:
        """The same model with the threshold that its calibration gives for the false-positive rate `rate`, in (0, 1)."""
        rate = number("rate", rate)
        options = {**self._options, "false_positive_rate": rate, "threshold": None}
        return type(self)(self._native.with_false_positive_rate(rate), options)

    @property
    def threshold(self) -> float | None:
        """The energy above which a sample is an anomaly."""
        return self._native.threshold

    @property
    def false_positive_rate(self) -> float | None:
        """The expected share of normal samples above the threshold, at most."""
        return self._native.false_positive_rate

    @property
    def metadata(self) -> dict[str, Any]:
        """The model's description, as `nae-infer inspect --json` prints it: names, and texts, numbers, lists or dicts."""
        return json.loads(self._native.metadata)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """The shape of the network's input: channels, rows, columns."""
        return self._native.input_shape

    @property
    def backend(self) -> str:
        """The runtime that runs the network: simd, tract, native or ort."""
        return self._native.backend

    def to_bytes(self) -> bytes:
        """The contents of the model file. A threshold that was given to `open` is not in it."""
        return self._native.to_bytes()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file, whose old content stays if that fails. A threshold that was given to `open` is not in it."""
        self._native.save(checked_path("path", path))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.to_bytes(), os.fspath(self._native.path), self._options)

    def __repr__(self) -> str:
        shape = "×".join(str(extent) for extent in self.input_shape)
        name = os.fspath(self._native.path)
        return f"<Detector {name}: {shape} (C×H×W), threshold {self.threshold}, {self.backend}>"


def keeps_errors(errors: str) -> bool:
    """Whether samples that cannot be scored are recorded, by the argument `errors`."""
    if errors not in ("raise", "coerce"):
        raise ValueError(f"errors: expected raise or coerce, found {errors!r}")
    return errors == "coerce"


def _options(
    threads: int | None, backend: str | None, false_positive_rate: float | None, threshold: float | None
) -> dict[str, Any]:
    return checked(
        {
            "threads": threads,
            "backend": backend,
            "false_positive_rate": false_positive_rate,
            "threshold": threshold,
        }
    )


def _restore(data: bytes, name: str, options: dict[str, Any]) -> Detector:
    return Detector.from_bytes(data, name, **options)
