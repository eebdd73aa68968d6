"""Searchers: what to try next, by ask and tell."""

from collections.abc import Callable

from optsmith._registry import Registry
from optsmith.searchers._base import Candidate, ChildScore, Decision, Outcome, Searcher
from optsmith.searchers._mct import MonteCarloTree
from optsmith.searchers._random import random_search

searchers: Registry[Callable[..., Searcher]] = Registry("search algorithm")
searchers.add("mct", MonteCarloTree)
searchers.add("random", random_search)

__all__ = [
    "Candidate",
    "ChildScore",
    "Decision",
    "MonteCarloTree",
    "Outcome",
    "Searcher",
    "random_search",
    "searchers",
]
