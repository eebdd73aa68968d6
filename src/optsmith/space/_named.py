"""Registry of the built-in spaces."""

from __future__ import annotations

from optsmith._registry import Registry
from optsmith.rules import PAPER
from optsmith.space._constraint import PAPER_CONSTRAINTS
from optsmith.space._modern import MODERN_SPACE
from optsmith.space._space import Space

spaces: Registry[Space] = Registry("space")

spaces.add("paper", Space(PAPER, PAPER_CONSTRAINTS, name="paper"))

_NOT_CONVNET = ("g3", "m3", "Adam", "RMSprop")
spaces.add(
    "convnet",
    Space([o for o in PAPER if o.name not in _NOT_CONVNET], PAPER_CONSTRAINTS, name="convnet"),
)

spaces.add("modern", MODERN_SPACE)
