"""Reads pickles of NumPy arrays without running code from them.

NumPy's functions are replaced by stand-ins, which build arrays from validated numbers and bytes.
Any other class or function in the pickle is refused.
"""

from __future__ import annotations

import gzip
import math
import pickle
import re
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np

from optsmith._errors import DataError


class _Dtype:
    """Stand-in for `numpy.dtype` that supports only numeric and boolean types."""

    def __init__(self, code: bytes | str, *flags: object) -> None:
        text = code.decode("latin1") if isinstance(code, bytes) else str(code)
        if not re.fullmatch(r"[biuf][1248]", text):
            raise DataError(f"an array of type {text[:20]!r} is not numeric")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        orders = {b"<": "<", "<": "<", b">": ">", ">": ">", b"|": "", "|": ""}
        self.dtype = np.dtype(orders[state[1]] + self.dtype.str[1:])


class _Array(np.ndarray[Any, Any]):
    """An array under construction, whose `__setstate__` validates the pickle."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, content = state
        if not (isinstance(kind, _Dtype) and isinstance(content, bytes)):
            raise DataError("an array does not consist of plain numbers")
        if not all(isinstance(n, int) and n >= 0 for n in shape):
            raise DataError("an array has an invalid shape")
        if math.prod(shape) * kind.dtype.itemsize != len(content):
            raise DataError("the size of an array does not match its shape")
        checked: Any = (1, tuple(shape), kind.dtype, bool(fortran), content)
        super().__setstate__(checked)


def _reconstruct(*_: object) -> _Array:
    return np.zeros(0, np.uint8).view(_Array)


_NUMPY: dict[tuple[str, str], object] = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")},
    ("numpy", "ndarray"): "ndarray",  # used only as an argument, which is ignored
    ("numpy", "dtype"): _Dtype,
}


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, stream: gzip.GzipFile | IO[bytes], allow: Mapping[tuple[str, str], object]
    ) -> None:
        # Strings of Python 2 are read as bytes.
        super().__init__(stream, encoding="bytes")
        self._known = {**_NUMPY, **allow}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._known:
            raise DataError(f"it contains {module}.{name}")
        return self._known[module, name]

    def persistent_load(self, pid: object) -> Any:
        raise DataError("it refers to an external object")


def load_arrays(
    stream: gzip.GzipFile | IO[bytes],
    name: str,
    allow: Mapping[tuple[str, str], Callable[..., Any]] | None = None,
) -> Any:
    """Read a pickle that contains numeric NumPy arrays in lists, tuples and dicts.

    Args:
        stream: The pickle.
        name: Name of the pickle in error messages.
        allow: Stand-ins for additional classes, by module and name.

    Raises:
        DataError: The pickle contains other objects, or is damaged.
    """
    try:
        return _Unpickler(stream, allow or {}).load()
    except DataError as error:
        raise DataError(f"{name} is refused: {error}") from None
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise DataError(f"{name} is damaged: {type(error).__name__}: {error}") from None
