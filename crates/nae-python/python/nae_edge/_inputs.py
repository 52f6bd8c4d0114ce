"""Recognizes the kind of input: images, tables or files, without importing the library that an object comes from.

`_native` gets NumPy arrays, names and columns only. Training and scoring both use this module, so that they see the same
numbers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arguments import path
from ._native import MISSING

Column = npt.NDArray[np.float64] | list[str | None]

# The members of a list that cannot be used, by position, and why: only where they are to be recorded.
Problems = dict[int, str]


@dataclass(frozen=True)
class Files:
    paths: list[str]
    problems: Problems = field(default_factory=dict)


@dataclass(frozen=True)
class Encoded:
    contents: list[bytes]
    problems: Problems = field(default_factory=dict)


@dataclass(frozen=True)
class Images:
    arrays: list[npt.NDArray[Any]]
    # Whether the user gave a list: each of its members is one image.
    several: bool
    problems: Problems = field(default_factory=dict)


@dataclass(frozen=True)
class Matrix:
    values: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    names: list[str]
    columns: list[Column]
    # The other name that a table may have for a column whose name is a number: a file has that of its header only where one
    # of the names is a text.
    others: dict[str, str] = field(default_factory=dict)

    def named_like(self, known: Iterable[str]) -> Columns:
        """The same columns: those that are not among the names `known` have their other name, if that is."""
        known = set(known)
        missing = known.difference(self.names)
        other = {name: other for name, other in self.others.items() if name not in known and other in missing}
        return replace(self, names=[other.get(name, name) for name in self.names])


Input = Files | Encoded | Images | Matrix | Columns


@contextmanager
def about(name: str) -> Iterator[None]:
    """Puts the name of the argument that cannot be used before the message."""
    try:
        yield
    # OSError: an image of Pillow's reads its file when its pixels are asked for.
    except (TypeError, ValueError, OSError) as error:
        raise _known(error)(f"{name}: {error}") from error


def _known(error: Exception) -> type[TypeError | ValueError | OSError]:
    """The built-in class of `error`: that of a library, such as pyarrow's, may need other arguments."""
    return next(known for known in (TypeError, ValueError, OSError) if isinstance(error, known))


def recognize(data: object, *, table: bool | None, coerce: bool = False, name: str = "data") -> Input:
    """The kind of `data`. `table` is whether the model takes tables; if None, an array of two axes is a table. With `coerce`,
    a member of a list that cannot be used is not an error, but one of `problems`. `name` is the argument's, in messages."""
    if isinstance(data, (str, os.PathLike)):
        return Files([path(name, data)])
    if isinstance(data, (bytes, bytearray)):
        return Encoded([bytes(data)])
    with about(name):
        found = _object(data, table=table)
    if found is not None:
        return found
    if isinstance(data, Sequence) and len(data) == 0 and table is False:
        return Images([], several=True)
    if isinstance(data, Sequence):
        # Messages about a member have its position.
        members = _members(data, table=table, coerce=coerce)
        if members is not None:
            return members
    with about(name):
        return _whole(data, table=table)


def _object(data: Any, *, table: bool | None) -> Images | Columns | None:
    """An image of Pillow's or the columns of a table of another library; None for anything else."""
    if _is_pillow(data):
        return Images([_pillow(data)], several=False)
    if type(data).__module__.partition(".")[0] in ("pandas", "polars") and type(data).__name__ == "Series":
        expected, remedy = {
            True: ("a table", "give a DataFrame"),
            False: ("an array, a path or a list of images, paths or bytes", "give a list: list(series)"),
            None: ("an array, a table, a path or a list", "give a DataFrame, or a list: list(series)"),
        }[table]
        raise TypeError(f"expected {expected}, found a Series: {remedy}")
    return _columns(data)


def _whole(data: Any, *, table: bool | None) -> Images | Matrix:
    """An array of images or of a table."""
    if not _is_array(data) and not isinstance(data, (list, tuple)):
        raise TypeError(
            "expected an array, a Pillow image, a DataFrame, an Arrow table, a path, the bytes of an image file, or a "
            "list of images, paths or bytes, "
            f"found {type(data).__name__}"
        )
    array = unmasked(data, table=table)
    if table is True or (table is None and array.ndim == 2):
        return Matrix(_matrix(array))
    return Images([image_array(array)], several=False)


def _members(data: Sequence[Any], *, table: bool | None, coerce: bool) -> Files | Encoded | Images | None:
    """The files or images of a list, of the kind of its first one; None for a list of none, such as of numbers."""
    kinds = [_kind(item) for item in data]
    kind = next((kind for kind in kinds if kind is not None), None)
    if kind is None and len(data) > 0 and all(item is None for item in data):
        kind = "image"
    if kind is None or (kind == "image" and table is True):
        return None
    convert, expected = {
        "path": (partial(path, "data"), "a path"),
        "bytes": (bytes, "the bytes of an image file"),
        "image": (_image, "an image"),
    }[kind]
    noun = "file" if kind == "path" else "image"
    members: list[Any] = []
    problems: Problems = {}
    for at, (item, own) in enumerate(zip(data, kinds, strict=True)):
        try:
            # A nested list beside arrays is an array, too.
            if own != kind and not (kind == "image" and isinstance(item, (list, tuple))):
                first = kinds.index(kind) if kind in kinds else at
                like = f", as {noun} {first} is" if first < at else ""
                raise TypeError(f"expected {expected}{like}, found {_described(item)}")
            members.append(convert(item))
        # As in `about`.
        except (TypeError, ValueError, OSError) as error:
            if not coerce:
                raise _known(error)(f"{noun} {at}: {error}") from error
            problems[at] = str(error)
    if kind == "path":
        return Files(members, problems)
    return Encoded(members, problems) if kind == "bytes" else Images(members, True, problems)


def _kind(item: object) -> str | None:
    if isinstance(item, (str, os.PathLike)):
        return "path"
    if isinstance(item, (bytes, bytearray)):
        return "bytes"
    # The numbers of NumPy count as arrays of no axis.
    return "image" if _is_pillow(item) or (_is_array(item) and getattr(item, "ndim", 1) > 0) else None


def _described(item: object) -> str:
    return "None" if item is None else {"path": "a path", "bytes": "bytes"}.get(_kind(item) or "", type(item).__name__)


def _image(item: Any) -> npt.NDArray[Any]:
    return _pillow(item) if _is_pillow(item) else image_array(unmasked(item, table=False))


def unmasked(data: Any, *, table: bool | None) -> npt.NDArray[Any]:
    """`data` as an array whose every value is there: what a mask hides in a table is a gap, and in an image an error."""
    try:
        if isinstance(data, (list, tuple)) and any(isinstance(item, np.ma.MaskedArray) for item in data):
            data = np.ma.array(data)
        if not np.ma.is_masked(data):
            return np.asarray(data)
    except ValueError as error:
        raise ValueError(f"expected an array of numbers: {error}") from error
    # A tensor that needs a gradient, lies on another device or has numbers that NumPy does not have.
    except (RuntimeError, TypeError) as error:
        found = f"found a {type(data).__name__} that NumPy cannot read: {error}"
        raise TypeError(
            f"expected an array, {found}; give an array of NumPy, for PyTorch tensor.detach().cpu().float().numpy()"
        ) from error
    if table is True or (table is None and data.ndim == 2):
        return data.astype(np.float64).filled(np.nan)
    hidden = np.ma.count_masked(data)
    raise ValueError(f"expected images without a mask, found {hidden} masked values; fill them, such as by a.filled(0)")


def _matrix(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    if array.ndim != 2:
        remedy = "; one row is [1, columns]: reshape(1, -1)" if array.ndim == 1 else ""
        raise ValueError(f"expected a table [rows, columns], found an array of shape {array.shape}{remedy}")
    if array.dtype.kind not in "biufO":
        raise TypeError(f"expected a table of numbers, found an array of {array.dtype}; give texts in a DataFrame")
    try:
        return np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED"])
    except (TypeError, ValueError) as error:
        raise TypeError(f"expected a table of numbers: {error}; give texts in a DataFrame") from error


def image_array(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array as `_native` reads it. It is copied only if its memory order or byte order differs."""
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    if (array.dtype.kind, array.dtype.itemsize) not in {("u", 1), ("f", 4), ("f", 8)}:
        remedy = {
            "b": "; convert it by a.astype('float32')",
            **dict.fromkeys("iuf", "; divide by the largest value there can be, and give floats from 0 to 1"),
        }.get(array.dtype.kind, "")
        raise TypeError(f"expected an array of uint8, float32 or float64, found {array.dtype}{remedy}")
    return np.require(array, array.dtype.newbyteorder("="), ["C_CONTIGUOUS", "ALIGNED"])


def _is_array(data: object) -> bool:
    return isinstance(data, np.ndarray) or hasattr(data, "__array__") or hasattr(data, "__array_interface__")


def _is_pillow(data: object) -> bool:
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(data, pillow.Image)


def _pillow(image: Any) -> npt.NDArray[Any]:
    """Grey or RGB pixels, 8 bits or floats, turned upright by EXIF; transparency is dropped, as the command line does."""
    from PIL import ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I;16"):
        return np.ascontiguousarray(np.asarray(image).astype(np.float32) / np.float32(65535))
    if image.mode in ("I", "F"):
        raise ValueError(
            f"a Pillow image of mode {image.mode} has no range: divide its array by the largest value there can be"
        )
    # Pillow undoes the multiplication by the transparency only in a step of its own.
    if image.mode in ("La", "RGBa"):
        image = image.convert(image.mode.upper())
    grey = image.mode in ("1", "L", "LA")
    return np.ascontiguousarray(np.asarray(image.convert("L" if grey else "RGB")))


def _columns(data: Any) -> Columns | None:
    """The columns of a DataFrame or an Arrow table."""
    library = type(data).__module__.partition(".")[0]
    if library == "pandas" and hasattr(data, "columns") and hasattr(data, "iloc"):
        labels = list(data.columns)
        return _named(labels, [_pandas(str(label), data.iloc[:, at]) for at, label in enumerate(labels)])
    if library == "polars" and hasattr(data, "get_columns"):
        return _named(list(data.columns), [_polars(column) for column in data.get_columns()])
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        if library in ("pandas", "polars"):
            raise TypeError(f"expected a table, found a {type(data).__name__}: give a DataFrame")
        return _arrow(data)
    return None


def _named(labels: list[Any], columns: list[Column]) -> Columns:
    # Whole numbers are pandas' default labels, from 0. A table file without a header has "column 1" and so on.
    written = [f"column {int(label) + 1}" if is_whole(label) else " ".join(str(label).split()) for label in labels]
    names = named(written)
    others = {}
    for label, text, name in zip(labels, written, names, strict=True):
        if is_whole(label):
            others[name] = str(label)
        elif not _is_text(text):
            others[name] = text if name != text else f"column {text}"
    return Columns(names, columns, others)


def is_whole(label: object) -> bool:
    """Whether the label of a column is a whole number, which is its position from 0 and not its name."""
    return isinstance(label, (int, np.integer)) and not isinstance(label, bool)


def whole_labels(data: Any) -> list[int] | None:
    """The labels of a DataFrame's columns, if all are whole numbers."""
    if type(data).__module__.partition(".")[0] != "pandas" or not hasattr(data, "iloc") or getattr(data, "ndim", 0) != 2:
        return None
    labels = list(data.columns)
    return [int(label) for label in labels] if labels and all(map(is_whole, labels)) else None


def numbered(numbers: Iterable[int]) -> list[str]:
    """Default names of columns, counted from 1, as the reader of table files gives them."""
    return [f"column {number}" for number in numbers]


def named(names: list[str]) -> list[str]:
    """Names as they come back from a table file: blanks are normalized, and only a line with a text is a header."""
    names = [" ".join(name.split()) for name in names]
    return names if any(_is_text(name) for name in names) else [f"column {name}" for name in names]


def _is_text(name: str) -> bool:
    if name.lower() in MISSING:
        return False
    try:
        return not np.isfinite(float(name))
    except ValueError:
        return True


def _texts(name: str, values: Iterable[Any]) -> list[str | None]:
    return [None if value is None else _text(name, value) for value in values]


def _text(name: str, value: Any) -> str:
    if isinstance(value, timedelta):
        raise TypeError(
            f'the column "{name}": expected numbers, texts, truth values or dates, found a duration; convert it to a number, '
            "such as its seconds, or leave the column out"
        )
    # The reader of tables compares times in one form, whatever wrote them: see `category` in nae-input.
    return str(value)


def _pandas(name: str, series: Any) -> Column:
    # The reader of table files takes truth values as texts; so does this, whatever the column's type.
    kind = getattr(series.dtype, "kind", "O")
    if kind in "iuf":
        return np.ascontiguousarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return _texts(name, (None if gap else value for value, gap in zip(series, series.isna(), strict=True)))


def _polars(series: Any) -> Column:
    polars = sys.modules["polars"]
    if series.dtype.is_numeric():
        return np.ascontiguousarray(series.cast(polars.Float64).fill_null(float("nan")).to_numpy())
    return _texts(series.name, series.to_list())


def _arrow(data: Any) -> Columns:
    try:
        import pyarrow
    except ImportError as error:
        raise TypeError(
            f"a table of {type(data).__name__} comes by Arrow's C interface, and pyarrow is not installed to read it: "
            "install pyarrow, or give a DataFrame of pandas or polars"
        ) from error
    # An array of Arrow has the interface, too; one of structures is a table.
    found = {pyarrow.Array: "an Array", pyarrow.ChunkedArray: "a ChunkedArray"}
    for kind, noun in found.items():
        if isinstance(data, kind) and not pyarrow.types.is_struct(data.type):
            raise TypeError(f"expected a table, found {noun}: give a table of named columns, or an array of NumPy")
    try:
        table = pyarrow.table(data)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
        raise TypeError(f"expected a table, found a {type(data).__name__}: {error}") from error
    types = pyarrow.types

    def column(name: str, values: Any) -> Column:
        if types.is_integer(values.type) or types.is_floating(values.type):
            return np.ascontiguousarray(values.cast(pyarrow.float64(), safe=False).to_numpy(), dtype=np.float64)
        return _texts(name, values.to_pylist())

    names = list(table.column_names)
    return _named(names, [column(name, table.column(at)) for at, name in enumerate(names)])


def arrow_images(column: Any) -> list[Any]:
    """The images of an Arrow column: lists of lists become arrays of the column's numbers, other values stay as they are."""
    import pyarrow

    kind = column.type
    while hasattr(kind, "value_type") or hasattr(kind, "storage_type"):
        kind = kind.value_type if hasattr(kind, "value_type") else kind.storage_type
    is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)
    return nested_images(column.to_pylist(), kind.to_pandas_dtype() if is_number else None)


def nested_images(items: Iterable[Any], dtype: npt.DTypeLike | None = None) -> list[Any]:
    """Lists of lists among the `items` become arrays, of numbers of `dtype` if it is known; other items stay as they are."""
    return [_nested(item, dtype) if isinstance(item, list) else item for item in items]


def _nested(item: list[Any], dtype: npt.DTypeLike | None) -> npt.NDArray[Any]:
    try:
        array = np.asarray(item)
    except ValueError:
        # The rows have several lengths, which is reported as an error of this sample when it is scored.
        return np.asarray(item, object)
    # A list with a gap has objects, which have no type.
    return array if dtype is None or array.dtype == object else array.astype(dtype)
