"""Writes data in memory to files for the trainer, so that training behaves as `nae-train --data` does, with the same messages.

Images become .npy files, tables CSV. Numbers keep every bit.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
import tempfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ._arguments import checked
from ._inputs import Columns, Encoded, Files, Images, Input, Matrix, numbered
from ._native import image_axes


def check_layout(layout: str | None, *given: Input | None) -> None:
    """Refuses the argument `layout` where none of what is `given` is an array of images."""
    if checked({"layout": layout})["layout"] is not None and not any(isinstance(found, Images) for found in given):
        raise ValueError("layout: it is for arrays of images; leave it out, or give the array (numpy.load)")


def as_path(found: Input, folder: Path, name: str, layout: str | None) -> str:
    """The path of `found`: its own if it is one, else of a file or folder `name` that is written into `folder`."""
    if isinstance(found, Files):
        if len(found.paths) != 1:
            raise TypeError(f"expected one folder or file, found {len(found.paths)} paths; give the folder they are in")
        return found.paths[0]
    if isinstance(found, Encoded):
        path = folder / name
        path.mkdir()
        for index, content in enumerate(found.contents):
            # The format is recognized by the first bytes; the extension only marks the file as an image.
            (path / f"{index:07}.png").write_bytes(content)
        return str(path)
    if isinstance(found, Images):
        return _images(found, folder / name, layout)
    if isinstance(found, Matrix):
        # With names: an infinity in the first row would otherwise make it a header.
        found = Columns(numbered(range(1, found.values.shape[1] + 1)), list(found.values.T))
    return write_columns(found, folder / f"{name}.csv")


def data_digest(found: Input, layout: str | None) -> str:
    """SHA-256 of the files, with their names, that the trainer would read for `found`."""
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory(prefix="nae-edge-") as temporary:
        path = Path(as_path(found, Path(temporary), "data", layout))
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        for file in files:
            digest.update(f"{file.relative_to(path.parent)}\n".encode())
            # A path that only the nodes see counts by its name.
            if file.exists():
                with file.open("rb") as content:
                    while block := content.read(1 << 20):
                        digest.update(block)
    return digest.hexdigest()


def _images(images: Images, path: Path, layout: str | None) -> str:
    if not images.several:
        file = path.with_suffix(".npy")
        np.save(file, _channels_first(images.arrays[0], layout, member=False))
        return str(file)
    # Images may differ in size: one file each, numbered in their order.
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
    with path.open("w", encoding="utf-8", newline="") as file:
        # The reader chooses the separator by the first line, outside of quotes: names have no part in it.
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(table.names)
        csv.writer(_Lines(file), lineterminator="\r\n").writerows(zip(*cells, strict=True))
    return str(path)


class _Lines:
    """Lines that end with a line feed, for a writer of `csv` that has the ends \\r\\n: up to Python 3.12 it quotes a carriage
    return in a cell only if this is a part of the end, and the reader of tables takes it for the end of a line."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> int:
        return self._file.write(line.removesuffix("\r\n") + "\n")


def _number(value: float) -> str:
    return "" if math.isnan(value) else repr(value)
