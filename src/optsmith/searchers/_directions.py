"""Directions of hidden matrices: compositions of the ways to normalise a momentum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

from optsmith.rules import BY_ROLE, Rule, is_number, subrule
from optsmith.searchers._base import Candidate
from optsmith.space import Space

WAYS = {
    "orth": "orth({0})",
    "rows": "rows({0})",
    "cols": "cols({0})",
    "second moment": "({0})/sqrt(ema(({0})^2, 0.95))",
    "whiten": "whiten({0}, g)",
}
"""Ways to normalise a matrix."""

_SIZES = {"orth": "fan*{0}", "second moment": "unit({0})", "whiten": "unit({0})"}
"""What makes the mean square of a result 1, so that learning rates carry over."""

MOST_WAYS = 2
"""Maximum number of ways in a composition."""

FINALISTS = 6
"""Rules that are compared in full runs."""

SHORT = 0.5
"""Length of the short runs; shorter ones misrank directions."""

FACTORS = (1.0, 0.7)
"""Learning rates of full runs, relative to that of the rule to start from."""

PHASE = "directions"

FIRST_BLOCK = 40_000
"""First block of seeds; generations of a search use those before."""


class Contenders:
    """Compares rules in short runs, then the best of them in full runs on other seeds.

    The first rule, which is known, reaches the full runs in any case.

    Args:
        rules: The rules.
        lr: Learning rate of all of them.

    Attributes:
        best: The best rule in full runs, or, before they are told, in short ones.
    """

    def __init__(self, rules: Sequence[Rule], lr: float) -> None:
        self.rules, self.best, self.step = list(rules), rules[0], 0
        self._lr = lr

    @property
    def cost(self) -> float:
        """Runs of full length that the comparison needs."""
        full = min(FINALISTS, len(self.rules)) * len(FACTORS)
        return SHORT * len(self.rules) + full

    def candidates(self) -> list[Candidate]:
        """Return the candidates of the current step; none if the comparison is over."""
        if self.step > 1:
            return []
        fidelity, factors = (SHORT, (1.0,)) if self.step == 0 else (1.0, FACTORS)
        return [
            Candidate(f"{PHASE}:{self.step}:{i}:{factor}", rule, fidelity,
                      FIRST_BLOCK + self.step, self._lr * factor, PHASE)
            for i, rule in enumerate(self.rules) for factor in factors
        ]  # fmt: skip

    def tell(self, losses: Mapping[str, float]) -> None:
        """Register the losses of the current step by candidate, and begin the next."""
        best = dict.fromkeys(range(len(self.rules)), math.inf)
        for key, loss in losses.items():
            i = int(key.split(":")[2])
            best[i] = min(best[i], loss)
        order = sorted(best, key=best.__getitem__)
        self.best = self.rules[order[0]]
        first, others = self.rules[0], [self.rules[i] for i in order if i]
        self.rules = [first, *others[: FINALISTS - 1]]
        self.step += 1


def compositions(rule: Rule, space: Space) -> list[Rule]:
    """Return a rule for roles with other directions of its hidden matrices, and itself first.

    The rule orthogonalises some expression, such as a momentum. Instead, the expression is
    normalised by each way, and by each way after another. Without such an expression, or outside
    the space's operators, there is only the rule itself.
    """
    at = next((i for i, o in enumerate(rule.operators) if o.name == BY_ROLE), None)
    if at is None:
        return [rule]
    matrices = subrule(rule, at + 1)
    factors = _factors(matrices)
    orth = next((f for f in factors if f.operators[0].name == "orth"), None)
    if orth is None:
        return [rule]
    inner = str(subrule(orth, 1))
    weight = "*".join(str(f) for f in factors if is_number(f.operators[0])) or "1"
    names = {operator.name for operator in space.operators}
    found = {rule: None}
    for ways in _sequences():
        direction = inner
        for way in reversed(ways):
            direction = WAYS[way].format(direction)
        side = Rule.parse(f"{weight}*({_SIZES.get(ways[0], '{0}').format(direction)})")
        if {o.name for o in side.operators if o.name[:1].isalpha()} <= names | {"mul", "add"}:
            end = at + 1 + matrices.length
            whole = (*rule.operators[: at + 1], *side.operators, *rule.operators[end:])
            found[Rule(whole)] = None
    return list(found)


def _sequences() -> list[tuple[str, ...]]:
    """Return the sequences of different ways, the outermost first."""
    return [
        ways
        for count in range(1, MOST_WAYS + 1)
        for ways in product(WAYS, repeat=count)
        if len(set(ways)) == count
    ]


def _factors(rule: Rule) -> list[Rule]:
    """Return the factors of a product, or the rule itself."""
    if rule.operators[0].name != "mul":
        return [rule]
    first = subrule(rule, 1)
    return [*_factors(first), *_factors(subrule(rule, 1 + first.length))]
