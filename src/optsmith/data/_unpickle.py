"""Reading pickles of NumPy arrays without running anything that a pickle asks for.

The pickle gets stand-ins for NumPy's functions; arrays are built from the plain numbers and bytes
in it, checked first. Any other class or function in it is refused.
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
    """Stands in for `numpy.dtype`: numbers and truth values only."""

    def __init__(self, code: bytes | str, *flags: object) -> None:
        text = code.decode("latin1") if isinstance(code, bytes) else str(code)
        if not re.fullmatch(r"[biuf][1248]", text):
            raise DataError(f"an array of type {text[:20]!r} is not one of numbers")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        orders = {b"<": "<", "<": "<", b">": ">", ">": ">", b"|": "", "|": ""}
        self.dtype = np.dtype(orders[state[1]] + self.dtype.str[1:])


class _Array(np.ndarray[Any, Any]):
    """An array in the making; what the pickle calls on it is ours."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, content = state
        if not (isinstance(kind, _Dtype) and isinstance(content, bytes)):
            raise DataError("an array is not made of plain numbers")
        if not all(isinstance(n, int) and n >= 0 for n in shape):
            raise DataError("an array has no sensible shape")
        if math.prod(shape) * kind.dtype.itemsize != len(content):
            raise DataError("an array has not as many numbers as its shape says")
        checked: Any = (1, tuple(shape), kind.dtype, bool(fortran), content)
        super().__setstate__(checked)


def _reconstruct(*_: object) -> _Array:
    return np.zeros(0, np.uint8).view(_Array)


_NUMPY: dict[tuple[str, str], object] = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")},
    ("numpy", "ndarray"): "ndarray",  # only ever an argument, and never looked at
    ("numpy", "dtype"): _Dtype,
}


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, stream: gzip.GzipFile | IO[bytes], allow: Mapping[tuple[str, str], object]
    ) -> None:
        # As bytes, which is what Python 2 wrote.
        super().__init__(stream, encoding="bytes")
        self._known = {**_NUMPY, **allow}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._known:
            raise DataError(f"it asks for {module}.{name}")
        return self._known[module, name]

    def persistent_load(self, pid: object) -> Any:
        raise DataError("it refers to something outside")


def load_arrays(
    stream: gzip.GzipFile | IO[bytes],
    name: str,
    allow: Mapping[tuple[str, str], Callable[..., Any]] | None = None,
) -> Any:
    """Read a pickle that holds NumPy arrays of numbers, in lists, tuples and dicts.

    Args:
        stream: The pickle.
        name: What to call it in errors.
        allow: Further classes by module and name, and what stands for each.

    Raises:
        DataError: It asks for anything else, or is damaged.
    """
    try:
        return _Unpickler(stream, allow or {}).load()
    except DataError as error:
        raise DataError(f"{name} is refused: {error}") from None
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise DataError(f"{name} is damaged: {type(error).__name__}: {error}") from None
