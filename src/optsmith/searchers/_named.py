"""The registry of searchers, and the lookup of a searcher by name or in a user's file."""

from __future__ import annotations

from typing import Any

from optsmith._errors import OptsmithError
from optsmith._load import load
from optsmith._registry import Registry
from optsmith.searchers._base import Searcher
from optsmith.searchers._evolution import Evolution
from optsmith.searchers._mct import MonteCarloTree
from optsmith.searchers._mixture import Mixture
from optsmith.searchers._random import RandomSearch
from optsmith.searchers._uct import UctSearch

searchers: Registry[type[Searcher]] = Registry("search algorithm")
searchers.add("mct", MonteCarloTree)
searchers.add("random", RandomSearch)
searchers.add("mixture", Mixture)
searchers.add("uct", UctSearch)
searchers.add("evolution", Evolution)


def find_searcher(text: str) -> type[Searcher]:
    """Return a searcher's class by its name, or from `file.py:Class` or `package.module:Class`.

    Raises:
        OptsmithError: There is no such searcher.
    """
    if ":" in text:
        found: type[Searcher] = load(text, "searcher", _is_searcher, OptsmithError)
        return found
    if text not in searchers:
        raise OptsmithError(
            f"{searchers.unknown(text)}; a searcher of your own is written file.py:Class"
        )
    return searchers[text]


def _is_searcher(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Searcher) and value is not Searcher
