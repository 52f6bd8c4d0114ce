"""Checks of arguments before `_native` gets them: an error names the argument, what was expected and what was found."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

# The arguments of each kind, by name. All others are checked where they are used.
_COUNTS = ("seed", "pretraining_updates", "updates", "tile", "stride", "top_k", "window", "window_stride")
_WHOLE = {"held_out": 2**8 - 1, **dict.fromkeys(_COUNTS, 2**64 - 1)}
_NUMBERS = {"time_budget", "confidence", "checkpoint_every", "false_positive_rate", "threshold"}
_TRUTH_VALUES = {"strict", "resume", "report", "bars", "progress", "search", "trace_outliers", "latents", "heat_maps"}
_TEXTS = {"method", "form", "fit", "missing", "backend", "experiment", "scale", "layout"}
# None asks for nothing; with these, it is another type.
_NEEDED = _TRUTH_VALUES | {"fit", "missing", "experiment", "scale", "checkpoint_every", "cells", "feature_outputs", "folder"}
_PATHS = {"data", "preset", "features", "folder", "settings", "outliers"}


def checked(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments `asked`, each of the type that `_native` takes. None is kept where it asks for nothing.

    Raises TypeError for another type, and ValueError for a number that is too small or too large.
    """
    return {name: _checked(name, value) for name, value in asked.items()}


def whole(name: str, value: object, most: int = 2**64 - 1) -> int:
    """`value` as a whole number from 0 to `most`: an int, or an integer of NumPy."""
    expected = f"{name}: expected a whole number, " + ("0 or more" if most == 2**64 - 1 else f"0 to {most}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{expected}, found {value!r}") from None
    if not 0 <= number <= most:
        top = f"{name}: expected a whole number, 0 to {most}"
        raise ValueError(f"{expected if number < 0 else top}, found {number}")
    return number


def number(name: str, value: object) -> float:
    """`value` as a float: a number, also one of NumPy."""
    try:
        if not isinstance(value, (str, bytes, bytearray)):
            return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        pass
    raise TypeError(f"{name}: expected a number, found {value!r}")


def path(name: str, value: object) -> str:
    """`value` as the text of a path: a text or a path of pathlib, in which ~ is the user's folder."""
    found = os.path.expanduser(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(found, str):
        raise TypeError(f"{name}: expected a path, found {value!r}")
    if not found:
        # For Python it would be the current folder.
        raise ValueError(f"{name}: expected a path, found an empty text")
    return found


def texts(name: str, values: Iterable[Any]) -> list[str]:
    """`values` as a list of texts; one text is none, for its letters would be the list."""
    found = None if isinstance(values, (str, bytes)) or not isinstance(values, Iterable) else list(values)
    if found is None or not all(isinstance(value, str) for value in found):
        raise TypeError(f"{name}: expected a list of names, found {values!r}")
    return found


def _checked(name: str, value: Any) -> Any:
    if value is None and name not in _NEEDED:
        return None
    if name in _WHOLE:
        return whole(name, value, _WHOLE[name])
    if name == "threads":
        # The least number is checked by `_native`, with the message of the command line.
        try:
            return max(-(2**63), min(operator.index(value), 2**63 - 1))
        except TypeError:
            raise TypeError(f"threads: expected a whole number, 1 or more, found {value!r}") from None
    if name in _NUMBERS:
        return number(name, value)
    if name in _TRUTH_VALUES:
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name}: expected True or False, found {value!r}")
        return bool(value)
    if name in _TEXTS and not isinstance(value, str):
        raise TypeError(f"{name}: expected a text, found {value!r}")
    if name in _PATHS:
        return path(name, value)
    if name in ("feature_outputs", "cells"):
        return texts(name, value)
    return value
