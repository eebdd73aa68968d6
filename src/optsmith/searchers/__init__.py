"""Search algorithms with an ask-and-tell interface."""

from optsmith.searchers._base import Candidate, Direction, Outcome, Searcher, generator
from optsmith.searchers._mct import MonteCarloTree
from optsmith.searchers._named import find_searcher, searchers
from optsmith.searchers._options import OptionField, option, option_fields, read_options
from optsmith.searchers._random import RandomSearch
from optsmith.searchers._rungs import Rungs

__all__ = [
    "Candidate",
    "Direction",
    "MonteCarloTree",
    "OptionField",
    "Outcome",
    "RandomSearch",
    "Rungs",
    "Searcher",
    "find_searcher",
    "generator",
    "option",
    "option_fields",
    "read_options",
    "searchers",
]
