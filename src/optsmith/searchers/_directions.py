"""Directions of hidden matrices: compositions of the ways to normalise a momentum."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from optsmith.rules import BY_ROLE, Rule, is_number, subrule
from optsmith.searchers._base import Candidate
from optsmith.space import Space

WAYS = {
    "orth": "orth({0})",
    "whiten": "whiten({0}, g)",
    "whiten rows": "whitenr({0}, g)",
    "second moment": "({0})/sqrt(ema(({0})^2, 0.95))",
    "rows": "rows({0})",
    "cols": "cols({0})",
}
"""Ways to normalise a matrix."""

_SIZES = {
    "orth": "fan*{0}",
    "second moment": "unit({0})",
    "whiten": "unit({0})",
    "whiten rows": "unit({0})",
}
"""What makes the mean square of a result 1, so that learning rates carry over."""

Ways = tuple[str, ...]
"""Ways that are applied one after another, the outermost first."""

ORTH = "orth"

_OTHERS = tuple(way for way in WAYS if way != ORTH)

FIRST_ROUND: tuple[Ways, ...] = (
    ("whiten",),
    *((way, ORTH) for way in _OTHERS),
    *((ORTH, way) for way in _OTHERS),
    ("whiten", ORTH, "whiten"),
)
"""Directions of the first round: those that were best on the GPT of benchmarks/tasks, where no
composition without `orth` or `whiten` came near."""

DIRECTIONS = tuple(
    dict.fromkeys(
        [*FIRST_ROUND, *((after, ORTH, before) for after in _OTHERS for before in _OTHERS)]
    )
)
"""All directions."""

SHORT = 0.5
"""Length of the runs of the first round; shorter ones misrank directions."""

BEST = 3
"""Directions that reach the second round; their combination is added to them."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How thoroughly directions are compared.

    Attributes:
        first: Sizes of the updates of hidden matrices in the first round, relative to those before:
            directions that suit the loss better can take larger steps.
        second: The same in the second round.
        blocks: Blocks of seeds in the second round.
    """

    first: tuple[float, ...]
    second: tuple[float, ...]
    blocks: int


EFFORTS = (Effort((1.0, 1.6), (1.0, 1.6, 2.5), 2), Effort((1.6,), (1.0, 1.6), 1))
"""The most thorough that fits into the budget is chosen."""

PHASE = "directions"

FIRST_BLOCK = 40_000
"""First block of seeds; generations of a search use those before."""


class Contenders:
    """Compares directions of the hidden matrices of a rule, in two rounds.

    In the first round, whatever the rule orthogonalises, such as a momentum, is also normalised
    before or after that, in short runs. In the second round, the best of these and the direction
    that combines the best normalisation before and the best one after are compared with the rule
    itself in full runs on other seeds.

    Args:
        rule: The rule.
        lr: Its learning rate.
        space: The space, whose operators the directions must have.
        effort: How thoroughly they are compared.
        allows: Returns whether a rule is within the limits of the search.

    Attributes:
        best: The best rule of the last round.
    """

    def __init__(
        self,
        rule: Rule,
        lr: float,
        space: Space,
        effort: Effort = EFFORTS[0],
        allows: Callable[[Rule], bool] = lambda rule: True,
    ) -> None:
        self.rule = self.best = rule
        self._lr, self._space, self._allows = lr, space, allows
        self._effort, self._round = effort, 0
        self._rules = self._forms(FIRST_ROUND, effort.first)

    def __len__(self) -> int:
        """Return the number of rules in the current round."""
        return len(self._rules)

    @property
    def cost(self) -> float:
        """Runs of full length that both rounds need at most."""
        full = 1 + (BEST + 1) * len(self._effort.second)
        return SHORT * len(self._rules) + self._effort.blocks * full

    def candidates(self) -> list[Candidate]:
        """Return the candidates of the current round; none if the comparison is over."""
        if self._round > 1:
            return []
        fidelity, blocks = (SHORT, 1) if self._round == 0 else (1.0, self._effort.blocks)
        first = FIRST_BLOCK + self._round
        return [
            Candidate(f"{PHASE}:{self._round}:{i}:{block}", rule, fidelity, first + block,
                      self._lr, PHASE)
            for block in range(blocks)
            for i, rule in enumerate(self._rules)
        ]  # fmt: skip

    def tell(self, losses: Mapping[str, float]) -> None:
        """Register the losses of the current round by candidate, and begin the next."""
        sums = dict.fromkeys(self._rules, 0.0)
        rules = list(self._rules)
        for key, loss in losses.items():
            sums[rules[int(key.split(":")[2])]] += loss
        if not sums:
            self._round = 2
            return
        self.best = min(sums, key=sums.__getitem__)
        if self._round == 0:
            ranked = (self._rules[rule] for rule in sorted(sums, key=sums.__getitem__))
            order = list(dict.fromkeys(ranked))
            chosen = list(dict.fromkeys([*order[:BEST], *_combined(order)]))
            self._rules = {self.rule: (ORTH,), **self._forms(chosen, self._effort.second)}
        self._round += 1

    def _forms(self, directions: Sequence[Ways], factors: Sequence[float]) -> dict[Rule, Ways]:
        """Return the rule with other directions, and which they are."""
        found = {}
        for ways in directions:
            for factor in factors:
                form = with_direction(self.rule, ways, self._space, factor)
                if form is not None and self._allows(form):
                    found[form] = ways
        return found


def _combined(order: Sequence[Ways]) -> list[Ways]:
    """Return the best way after `orth` and the best way before it, around `orth`."""
    after = next((ways[0] for ways in order if len(ways) == 2 and ways[1] == ORTH), None)
    before = next((ways[1] for ways in order if len(ways) == 2 and ways[0] == ORTH), None)
    return [(after, ORTH, before)] if after and before else []


def with_direction(rule: Rule, ways: Ways, space: Space, factor: float = 1.0) -> Rule | None:
    """Return a rule for roles with another direction of its hidden matrices.

    The rule orthogonalises some expression, which is normalised in these ways instead. None if
    there is no such expression, or if the result is outside the space's operators.

    Args:
        rule: The rule.
        ways: The ways.
        space: The space.
        factor: Size of the updates of hidden matrices, relative to that of the rule.
    """
    at = next((i for i, o in enumerate(rule.operators) if o.name == BY_ROLE), None)
    if at is None:
        return None
    matrices = subrule(rule, at + 1)
    factors = _factors(matrices)
    orth = next((f for f in factors if f.operators[0].name == ORTH), None)
    if orth is None:
        return None
    direction = str(subrule(orth, 1))
    for way in reversed(ways):
        direction = WAYS[way].format(direction)
    weight = factor * math.prod(
        float(f.operators[0].torch()) for f in factors if is_number(f.operators[0])
    )
    side = Rule.parse(f"{weight!r}*({_SIZES.get(ways[0], '{0}').format(direction)})")
    names = {operator.name for operator in space.operators} | {"mul", "add"}
    if not {o.name for o in side.operators if o.name[:1].isalpha()} <= names:
        return None
    end = at + 1 + matrices.length
    return Rule((*rule.operators[: at + 1], *side.operators, *rule.operators[end:]))


def _factors(rule: Rule) -> list[Rule]:
    """Return the factors of a product, or the rule itself."""
    if rule.operators[0].name != "mul":
        return [rule]
    first = subrule(rule, 1)
    return [*_factors(first), *_factors(subrule(rule, 1 + first.length))]
