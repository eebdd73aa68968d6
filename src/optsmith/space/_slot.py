"""The slots of a rule, and the operators that may fill them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from optsmith.rules import Operator


class OpenSlot:
    """A slot of a rule: the operators allowed there, with the slots that each of them opens."""

    __slots__ = ("choices", "least", "upto")

    def __init__(self) -> None:
        self.choices: list[Choice] = []
        self.least = math.inf  # length of the shortest sub-rule allowed here
        self.upto: list[float] = []  # sums of the weights of the choices, if they have weights


class Choice(NamedTuple):
    """An operator that is allowed in a slot."""

    operator: Operator
    opens: tuple[OpenSlot, ...]  # last operand first, as they are pushed on a stack


def measure(slots: list[OpenSlot]) -> None:
    """Set the least length of every slot by iterating from infinity to a fixed point."""
    changed = True
    while changed:
        changed = False
        for slot in slots:
            shortest = min((1 + least(c.opens) for c in slot.choices), default=math.inf)
            changed |= shortest < slot.least
            slot.least = shortest


def least(slots: Iterable[OpenSlot]) -> float:
    """Return the length of the shortest way to fill some slots."""
    return sum(slot.least for slot in slots)
