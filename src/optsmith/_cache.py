"""Values remembered per object, for as long as the object lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class ObjectCache(Generic[T]):
    """Remembers values by object and key.

    Objects are told apart by identity, so that those that define equality without a hash (a
    dataclass, for instance) can be remembered too, and equal ones never share a value.
    """

    def __init__(self) -> None:
        self._values: dict[int, dict[Hashable, T]] = {}

    def get(self, owner: object, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value for `owner` and `key`, made on first use."""
        if id(owner) not in self._values:
            self._values[id(owner)] = {}
            weakref.finalize(owner, self._values.pop, id(owner), None)
        values = self._values[id(owner)]
        if key not in values:
            values[key] = make()
        return values[key]

    def __len__(self) -> int:
        return len(self._values)
