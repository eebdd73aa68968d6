"""How functions, tasks and tensors get into a worker: by cloudpickle, large data by file.

Functions and classes that a worker cannot import (a script's own, a notebook's, those of a file
loaded by path) travel by value. Memory of large tensors and arrays is written to a shelf once and
mapped copy-on-write by every worker, so all of them need it once and none can spoil it for another.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import torch

from optsmith._torch import typed, untyped
from optsmith.execution._modules import importable
from optsmith.execution._shelf import Shelf

_OURS = __name__.partition(".")[0]  # a worker begins with importing it

SMALL = 1 << 16
"""Bytes up to which a tensor or array is sent with everything else."""

Maps = dict[Any, Any]
"""What an unpickler has mapped already, by what it was mapped from."""


class _Storage(NamedTuple):
    """The memory of tensors; their shapes, strides and flags are pickled as usual."""

    path: str
    nbytes: int
    dtype: torch.dtype | None  # None: the storage itself was pickled, not a tensor

    def load(self, maps: Maps) -> Any:
        if self.path not in maps:
            # Not shared: written pages become private copies.
            maps[self.path] = torch.UntypedStorage.from_file(self.path, False, self.nbytes)
        memory = maps[self.path]
        if self.dtype is None:
            return memory
        return typed(memory, self.dtype)


class _Memory(NamedTuple):
    """A part of a file."""

    path: str
    offset: int
    nbytes: int


class _Array(NamedTuple):
    """An array that lies in a part of a file."""

    number: int  # one for each array object, so that the same object stays the same
    memory: _Memory
    kind: type[np.ndarray[Any, Any]]
    shape: Sequence[int]
    dtype: np.dtype[Any]
    offset: int
    strides: Sequence[int]
    writeable: bool

    def load(self, maps: Maps) -> Any:
        if self.number in maps:
            return maps[self.number]
        path, offset, nbytes = self.memory
        if self.memory not in maps:
            maps[self.memory] = np.memmap(path, np.uint8, "c", offset, (nbytes,))
        array = np.ndarray.__new__(
            self.kind, self.shape, self.dtype, maps[self.memory], self.offset, self.strides
        )
        array.flags.writeable = self.writeable
        maps[self.number] = array
        return array


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, shelf: Shelf | None) -> None:
        super().__init__(file)
        self._shelf = shelf
        self._paths: dict[tuple[int, int], str] = {}
        self._numbers: dict[int, int] = {}
        self._alive: list[object] = []  # while addresses identify memory, it must not be freed
        self._seen: set[str] = set()
        self._by_value: list[ModuleType] = []

    def dump(self, obj: Any) -> None:
        try:
            super().dump(obj)
        finally:
            for module in self._by_value:
                cloudpickle.unregister_pickle_by_value(module)

    def persistent_id(self, obj: Any) -> _Storage | _Array | None:
        """Return where a large object's memory is; None pickles the object as usual."""
        if self._shelf is None:
            return None
        if isinstance(obj, torch.storage.TypedStorage):
            return self._storage(untyped(obj), obj.dtype)
        if isinstance(obj, torch.UntypedStorage):
            return self._storage(obj, None)
        if type(obj) in (np.ndarray, np.memmap):
            return self._array(obj)
        return None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type):
            self._check_module(getattr(obj, "__module__", None))
        elif isinstance(obj, ModuleType):
            self._check_module(obj.__name__)
        return super().reducer_override(obj)

    def _check_module(self, name: object) -> None:
        """Have what belongs to a module travel by value when workers cannot import it."""
        top = name.partition(".")[0] if isinstance(name, str) else "__main__"
        if top in ("__main__", _OURS) or top in self._seen:
            return
        self._seen.add(top)
        if not importable(top) and top not in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.register_pickle_by_value(sys.modules[top])
            self._by_value.append(sys.modules[top])

    def _storage(self, memory: torch.UntypedStorage, dtype: torch.dtype | None) -> _Storage | None:
        nbytes = memory.nbytes()
        if nbytes <= SMALL or memory.device.type != "cpu":
            return None
        if memory.filename and _holds(memory.filename, nbytes):
            return _Storage(memory.filename, nbytes, dtype)

        self._alive.append(memory)

        def data() -> memoryview:
            empty = torch.empty(0, dtype=torch.uint8, device="cpu")
            return empty.set_(memory).numpy().data

        return _Storage(self._write(memory.data_ptr(), nbytes, data), nbytes, dtype)

    def _array(self, array: np.ndarray[Any, Any]) -> _Array | None:
        if array.nbytes <= SMALL or array.dtype.hasobject:
            return None
        root = _root(array)
        if not root.flags.forc:
            return None
        self._alive.append(array)
        return _Array(
            self._numbers.setdefault(id(array), len(self._numbers)),
            self._memory(root),
            type(array),
            array.shape,
            array.dtype,
            _address(array) - _address(root),
            array.strides,
            array.flags.writeable,
        )

    def _memory(self, root: np.ndarray[Any, Any]) -> _Memory:
        # A map that is copy-on-write may differ from its file.
        if isinstance(root, np.memmap) and isinstance(root.base, mmap.mmap) and root.mode != "c":
            memory = _Memory(str(root.filename), root.offset, root.nbytes)
            if root.filename is not None and _holds(memory.path, root.offset + root.nbytes):
                return memory

        def data() -> memoryview:
            return np.asarray(root).reshape(-1, order="A").view(np.uint8).data

        return _Memory(self._write(_address(root), root.nbytes, data), 0, root.nbytes)

    def _write(self, address: int, nbytes: int, data: Callable[[], memoryview]) -> str:
        """Return the file that holds some memory, written on first sight of it."""
        if self._shelf is None:
            raise AssertionError("nothing is written without a shelf")
        if (address, nbytes) not in self._paths:
            self._paths[address, nbytes] = self._shelf.write(data())
        return self._paths[address, nbytes]


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self._maps: Maps = {}

    def persistent_load(self, pid: _Storage | _Array) -> Any:
        return pid.load(self._maps)


def pack(obj: Any, shelf: Shelf | None = None) -> bytes:
    """Return an object as bytes for another process; with a shelf, large data goes there."""
    file = io.BytesIO()
    _Pickler(file, shelf).dump(obj)
    return file.getvalue()


def unpack(data: bytes) -> Any:
    """Return the object that `pack` was given, in a process that may read its shelf.

    Only for what came through a pipe from our own processes: unpickling runs code.
    """
    return _Unpickler(data).load()


def _root(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array whose memory a view shows; views of views may have other objects between."""
    root, below = array, array.base
    while below is not None:
        if isinstance(below, np.ndarray):
            root = below
        below = getattr(below, "base", None)
    return root


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _holds(path: str, nbytes: int) -> bool:
    """Return whether a file is still there, with as many bytes."""
    try:
        return os.stat(path).st_size >= nbytes
    except OSError:
        return False
