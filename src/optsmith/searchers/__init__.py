"""Search algorithms with an ask-and-tell interface."""

from optsmith.searchers._base import (
    Candidate,
    Direction,
    Outcome,
    Searcher,
    generator,
)
from optsmith.searchers._dictionary import folded, tunable
from optsmith.searchers._evolution import Evolution
from optsmith.searchers._genome import Genome
from optsmith.searchers._mct import MonteCarloTree
from optsmith.searchers._mixture import Mixture
from optsmith.searchers._named import find_searcher, searchers
from optsmith.searchers._options import OptionField, option, option_fields, read_options
from optsmith.searchers._proposal import Proposal
from optsmith.searchers._random import RandomSearch
from optsmith.searchers._rungs import Rungs
from optsmith.searchers._start import Start, with_weights
from optsmith.searchers._tuner import Tuner
from optsmith.searchers._uct import UctSearch
from optsmith.searchers._update_size import UpdateSize

__all__ = [
    "Candidate",
    "Direction",
    "Evolution",
    "Genome",
    "Mixture",
    "MonteCarloTree",
    "OptionField",
    "Outcome",
    "Proposal",
    "RandomSearch",
    "Rungs",
    "Searcher",
    "Start",
    "Tuner",
    "UctSearch",
    "UpdateSize",
    "find_searcher",
    "folded",
    "generator",
    "option",
    "option_fields",
    "read_options",
    "searchers",
    "tunable",
    "with_weights",
]
