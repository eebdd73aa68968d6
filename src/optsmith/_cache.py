"""A cache of values per object, which are discarded with the object."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class ObjectCache(Generic[T]):
    """Caches values by object and key.

    Objects are compared by identity, so that unhashable objects, such as most dataclasses, are
    supported, and equal objects do not share values.
    """

    def __init__(self) -> None:
        self._values: dict[int, dict[Hashable, T]] = {}

    def get(self, owner: object, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value for `owner` and `key`, computed on first use."""
        if id(owner) not in self._values:
            self._values[id(owner)] = {}
            weakref.finalize(owner, self._values.pop, id(owner), None)
        values = self._values[id(owner)]
        if key not in values:
            values[key] = make()
        return values[key]

    def __len__(self) -> int:
        return len(self._values)
