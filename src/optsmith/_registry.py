"""Registries of named items that users can extend: operators, spaces, zoo entries, tasks."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from optsmith._errors import OptsmithError

T = TypeVar("T")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `'; did you mean "x"?'` for the closest known name, or an empty string."""
    by_folded = {k.casefold(): k for k in known}
    near = difflib.get_close_matches(name.casefold()[:100], by_folded, n=1, cutoff=0.6)
    return f'; did you mean "{by_folded[near[0]]}"?' if near else ""


class Registry(Mapping[str, T]):
    """A mapping of unique names to items.

    Args:
        kind: Kind of the items, for messages ("operator", "zoo rule").
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}

    def add(self, name: str, item: T) -> T:
        """Register `item` under `name` and return it.

        Raises:
            OptsmithError: The name is already registered.
        """
        if name in self._items:
            raise OptsmithError(f'there is already a {self.kind} named "{name}"')
        self._items[name] = item
        return item

    def remove(self, name: str) -> None:
        """Remove `name`, for tests and notebooks that register an item again."""
        if name not in self._items:
            raise self.unknown(name)
        del self._items[name]

    def unknown(self, name: str) -> OptsmithError:
        """Return the error for an unknown name, with the closest known name or all of them."""
        hint = did_you_mean(name, self._items) or f"; known: {', '.join(self._items)}"
        return OptsmithError(f'there is no {self.kind} named "{name}"{hint}')

    def __getitem__(self, name: str) -> T:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)
