"""Serialization of functions, tasks and tensors for workers: cloudpickle, with large data in files.

Functions and classes that a worker cannot import (from a script, a notebook, or a file loaded by
path) are pickled by value. The memory of large tensors and arrays is written once to shared files,
which every worker maps copy-on-write: they share the memory, and writes are private.
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
from optsmith.execution._shared_files import SharedFiles

_OURS = __name__.partition(".")[0]  # workers can import it

SMALL = 1 << 16
"""Maximum bytes of a tensor or array that is pickled as usual."""

Maps = dict[Any, Any]
"""Maps created by an unpickler, by their source."""


class _Storage(NamedTuple):
    """The memory of tensors in a file; shapes, strides and flags are pickled as usual."""

    path: str
    nbytes: int
    dtype: torch.dtype | None  # None for a storage that was pickled without a tensor

    def load(self, maps: Maps) -> Any:
        if self.path not in maps:
            # Not shared, so that writes are private.
            maps[self.path] = torch.UntypedStorage.from_file(self.path, False, self.nbytes)
        memory = maps[self.path]
        if self.dtype is None:
            return memory
        return typed(memory, self.dtype)


class _Memory(NamedTuple):
    """A range of bytes of a file."""

    path: str
    offset: int
    nbytes: int


class _Array(NamedTuple):
    """An array whose memory is a range of a file."""

    number: int  # one per array object, to preserve identity
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
    def __init__(self, file: io.BytesIO, shared: SharedFiles | None) -> None:
        super().__init__(file)
        self._shared = shared
        self._paths: dict[tuple[int, int], str] = {}
        self._numbers: dict[int, int] = {}
        self._alive: list[object] = []  # freed memory could be reused at the same address
        self._seen: set[str] = set()
        self._by_value: list[ModuleType] = []

    def dump(self, obj: Any) -> None:
        try:
            super().dump(obj)
        finally:
            for module in self._by_value:
                cloudpickle.unregister_pickle_by_value(module)

    def persistent_id(self, obj: Any) -> _Storage | _Array | None:
        """Return the file of a large object's memory; None to pickle the object as usual."""
        if self._shared is None:
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
        """Register a module for pickling by value if workers cannot import it."""
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
        # A copy-on-write map may differ from its file.
        if isinstance(root, np.memmap) and isinstance(root.base, mmap.mmap) and root.mode != "c":
            memory = _Memory(str(root.filename), root.offset, root.nbytes)
            if root.filename is not None and _holds(memory.path, root.offset + root.nbytes):
                return memory

        def data() -> memoryview:
            return np.asarray(root).reshape(-1, order="A").view(np.uint8).data

        return _Memory(self._write(_address(root), root.nbytes, data), 0, root.nbytes)

    def _write(self, address: int, nbytes: int, data: Callable[[], memoryview]) -> str:
        """Return the file with a copy of some memory, which is written on first use."""
        if self._shared is None:
            raise AssertionError("nothing is written without shared files")
        if (address, nbytes) not in self._paths:
            self._paths[address, nbytes] = self._shared.write(data())
        return self._paths[address, nbytes]


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self._maps: Maps = {}

    def persistent_load(self, pid: _Storage | _Array) -> Any:
        return pid.load(self._maps)


def pack(obj: Any, shared: SharedFiles | None = None) -> bytes:
    """Serialize an object for another process; large data is written to `shared` if given."""
    file = io.BytesIO()
    _Pickler(file, shared).dump(obj)
    return file.getvalue()


def unpack(data: bytes) -> Any:
    """Deserialize an object from `pack`, in a process that can read its shared files.

    Only for data from our own processes, because unpickling runs code.
    """
    return _Unpickler(data).load()


def _root(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array that owns the memory of a view, through any chain of bases."""
    root, below = array, array.base
    while below is not None:
        if isinstance(below, np.ndarray):
            root = below
        below = getattr(below, "base", None)
    return root


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _holds(path: str, nbytes: int) -> bool:
    """Return whether a file exists and has at least `nbytes` bytes."""
    try:
        return os.stat(path).st_size >= nbytes
    except OSError:
        return False
