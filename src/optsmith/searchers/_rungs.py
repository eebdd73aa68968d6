"""Successive halving over fidelities, for use in any searcher."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from optsmith._errors import OptsmithError
from optsmith.searchers._base import Candidate, Direction, Outcome

RUNGS_HELP = "Fidelities of successive halving, such as 0.1,0.3,1."
"""Description of the option `rungs` of searchers."""


class Rungs:
    """Promotes candidates from rung to rung by rank.

    A rung is a fidelity. Of the candidates accepted on a rung of fidelity f, the fraction `f / g`,
    rounded up, is promoted to the next rung of fidelity g, so that all rungs train about the same
    number of steps. Candidates are ranked by score; of equal scores, the one told first ranks
    higher. The best candidates are those of the last rung, at full length.

    Args:
        fidelities: Fidelities in increasing order, ending with 1.
        direction: Whether smaller or larger scores are better.

    Attributes:
        rung: Index of the current rung, from 0.

    Raises:
        OptsmithError: The fidelities are invalid.
    """

    def __init__(self, fidelities: Sequence[float], direction: Direction = "minimize") -> None:
        in_order = all(a < b for a, b in pairwise(fidelities))
        if not fidelities or not fidelities[0] > 0 or fidelities[-1] != 1 or not in_order:
            raise OptsmithError(
                "rungs must be increasing fractions of the run that end with 1, such as 0.1,0.3,1"
            )
        self.fidelities = tuple(fidelities)
        self.rung = 0
        self._sign = 1 if direction == "minimize" else -1
        self._accepted: list[tuple[Candidate, float]] = []

    @classmethod
    def parse(cls, text: str, direction: Direction = "minimize") -> Rungs:
        """Return the rungs of a string such as `0.1,0.3,1`.

        Raises:
            OptsmithError: The string is not a list of valid fidelities.
        """
        try:
            fidelities = [float(part) for part in text.split(",")]
        except ValueError:
            fidelities = []
        return cls(fidelities, direction)

    @property
    def fidelity(self) -> float:
        """The fidelity of the current rung."""
        return self.fidelities[self.rung]

    @property
    def is_last(self) -> bool:
        """Whether the current rung is the last, at full length."""
        return self.rung + 1 == len(self.fidelities)

    @property
    def phase(self) -> str:
        """Display name of the current rung; empty if there is only one."""
        return f"rung {self.fidelity:.0%}".replace("%", " %") if len(self.fidelities) > 1 else ""

    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register the outcome of a candidate of the current rung."""
        if outcome.accepted and outcome.score is not None and math.isfinite(outcome.score):
            self._accepted.append((candidate, outcome.score))

    def promote(self) -> list[Candidate]:
        """Start the next rung and return its candidates, best first.

        Raises:
            OptsmithError: There is no next rung.
        """
        if self.is_last:
            raise OptsmithError("there is no rung after the last one")
        fraction = self.fidelities[self.rung] / self.fidelities[self.rung + 1]
        # Rounded first, because 30 * (0.1 / 0.3) is slightly above 10.
        count = math.ceil(round(len(self._accepted) * fraction, 9))
        ranked = sorted(self._accepted, key=lambda pair: self._sign * pair[1])
        self.rung += 1
        self._accepted = []
        return [
            replace(candidate, fidelity=self.fidelity, phase=self.phase)
            for candidate, _ in ranked[:count]
        ]
