"""Data in memory as files that the trainer reads: so training sees what `nae-train --data` would see, and says the
same.

Images become NumPy's files, tables CSV. Numbers keep every bit.
"""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ._inputs import Columns, Encoded, Files, Images, Matrix, numbered, recognise
from ._native import image_axes


def as_path(data: Any, folder: Path, name: str, layout: str | None) -> str:
    """The path of `data`, written into `folder` as `name` where it is none yet."""
    found = recognise(data, table=None)
    if layout is not None and not isinstance(found, (Images, Files)):
        raise ValueError("layout: it is of arrays of images; leave it out")
    if isinstance(found, Files):
        if len(found.paths) != 1:
            raise TypeError(f"expected one folder or file, found {len(found.paths)} paths; give the folder they are in")
        return os.path.expanduser(found.paths[0])
    if isinstance(found, Encoded):
        path = folder / name
        path.mkdir()
        for index, content in enumerate(found.contents):
            # What it is stands in its first bytes; the end of the name only says that it is an image.
            (path / f"{index:07}.png").write_bytes(content)
        return str(path)
    if isinstance(found, Images):
        return _images(found, folder / name, layout)
    if isinstance(found, Matrix):
        # With names, since an infinity in the first row would be taken for some.
        found = Columns(numbered(range(1, found.values.shape[1] + 1)), list(found.values.T))
    return write_columns(found, folder / f"{name}.csv")


def _images(images: Images, path: Path, layout: str | None) -> str:
    if not images.several:
        file = path.with_suffix(".npy")
        np.save(file, _channels_first(images.arrays[0], layout, member=False))
        return str(file)
    # Of several sizes: one file each, in their order.
    path.mkdir()
    for index, array in enumerate(images.arrays):
        np.save(path / f"{index:07}.npy", _channels_first(array, layout, member=True))
    return str(path)


def _channels_first(array: npt.NDArray[Any], layout: str | None, *, member: bool) -> npt.NDArray[Any]:
    count, channels, height, width, last = image_axes(array.shape, layout, member)
    if last:
        return np.ascontiguousarray(array.reshape(count, height, width, channels).transpose(0, 3, 1, 2))
    return np.ascontiguousarray(array.reshape(count, channels, height, width))


def write_columns(table: Columns, path: Path) -> str:
    cells = [
        [_number(value) for value in column.tolist()]
        if isinstance(column, np.ndarray)
        else ["" if text is None else text for text in column]
        for column in table.columns
    ]
    delimiter = _delimiter(table.names)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(table.names)
        writer.writerows(zip(*cells, strict=True))
    return str(path)


def _number(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


def _delimiter(names: list[str]) -> str:
    """What the first line has most of, since its reader goes by that; names have no tabs by now."""
    count = "".join(names).count
    return "," if count(",") >= count(";") else ";"
