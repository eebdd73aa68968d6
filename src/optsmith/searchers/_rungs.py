"""Successive halving over fidelities, as a part that any searcher can use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from optsmith._errors import OptsmithError
from optsmith.searchers._base import Candidate, Direction, Outcome


class Rungs:
    """Promotes candidates from rung to rung by rank.

    A rung is a fidelity. Of the candidates accepted on a rung, the share `f / g` goes on from
    fidelity f to the next one, g, rounded up: every rung trains about as many steps in all. Ranks
    are by score; the candidate that was told earlier is the better of two equals. What is chosen in
    the end is chosen on the last rung, at full length.

    Args:
        fidelities: Increasing, the last one 1.
        direction: Whether smaller or larger scores are better.

    Attributes:
        rung: The rung that is being filled, from 0.

    Raises:
        OptsmithError: The fidelities make no sense.
    """

    def __init__(self, fidelities: Sequence[float], direction: Direction = "minimize") -> None:
        in_order = all(a < b for a, b in pairwise(fidelities))
        if not fidelities or not fidelities[0] > 0 or fidelities[-1] != 1 or not in_order:
            raise OptsmithError(
                "rungs are increasing shares of the run's length that end with 1, such as 0.1,0.3,1"
            )
        self.fidelities = tuple(fidelities)
        self.rung = 0
        self._sign = 1 if direction == "minimize" else -1
        self._accepted: list[tuple[Candidate, float]] = []

    @classmethod
    def parse(cls, text: str, direction: Direction = "minimize") -> Rungs:
        """Return the rungs of a text such as `0.1,0.3,1`.

        Raises:
            OptsmithError: The text is not a list of such numbers.
        """
        try:
            fidelities = [float(part) for part in text.split(",")]
        except ValueError:
            fidelities = []
        return cls(fidelities, direction)

    @property
    def fidelity(self) -> float:
        """The fidelity of the rung that is being filled."""
        return self.fidelities[self.rung]

    @property
    def is_last(self) -> bool:
        """Whether this is the rung at full length."""
        return self.rung + 1 == len(self.fidelities)

    @property
    def phase(self) -> str:
        """The rung in words; empty when there is only one."""
        return f"rung {self.fidelity:.0%}".replace("%", " %") if len(self.fidelities) > 1 else ""

    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register what became of a candidate of this rung."""
        if outcome.accepted and outcome.score is not None and math.isfinite(outcome.score):
            self._accepted.append((candidate, outcome.score))

    def promote(self) -> list[Candidate]:
        """End this rung and return the candidates of the next, best first.

        Raises:
            OptsmithError: There is no next rung.
        """
        if self.is_last:
            raise OptsmithError("there is no rung after the last one")
        share = self.fidelities[self.rung] / self.fidelities[self.rung + 1]
        # Rounded first: 30 * (0.1 / 0.3) is a little more than 10.
        count = math.ceil(round(len(self._accepted) * share, 9))
        ranked = sorted(self._accepted, key=lambda pair: self._sign * pair[1])
        self.rung += 1
        self._accepted = []
        return [
            replace(candidate, fidelity=self.fidelity, phase=self.phase)
            for candidate, _ in ranked[:count]
        ]
