"""Directions of the updates: compositions of the ways to normalise a momentum, by role."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from optsmith.rules import Rule
from optsmith.searchers._base import Candidate
from optsmith.searchers._sides import ORTH, sides_of, weight
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

REST = {
    "orth": "fan*orth({0})",
    "rows": "rows({0})",
    "unit": "unit({0})",
}
"""Directions of parameters outside of hidden matrices, of the same momentum."""

REST_SIZES = (0.3, 1.0)
"""Sizes of these updates: their mean square, and Adam's is at most 1."""

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
"""All directions of hidden matrices."""

SHORT = 0.5
"""Length of the runs of the first round; shorter ones misrank directions."""

BEST = 3
"""Directions that reach the second round; their combination is added to them."""


@dataclass(frozen=True, slots=True)
class Form:
    """How the updates of a rule for roles are normalised.

    Attributes:
        hidden: The ways for hidden matrices; None: as the rule does.
        factor: Size of their updates, relative to that of the rule.
        rest: The direction of all other parameters; None: that of the rule.
        size: Size of their updates.
    """

    hidden: Ways | None = None
    factor: float = 1.0
    rest: str | None = None
    size: float = 1.0


FORMS = (
    *(Form(ways) for ways in DIRECTIONS),
    *(Form(rest=rest, size=size) for rest in REST for size in REST_SIZES),
)
"""All forms that differ from a rule for one of the roles."""


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
    """Compares directions of the updates of a rule for roles, in two rounds.

    In the first round, whatever the rule orthogonalises, such as a momentum, is also normalised
    before or after that, in short runs. In the second round, these are compared with the rule
    itself in full runs on other seeds: the best directions of hidden matrices, and the one that
    combines the best normalisation before and the best one after.

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
        forms = [Form(ways, factor) for ways in FIRST_ROUND for factor in effort.first]
        others = self._rules_of(forms)
        self._rules = {rule: Form(), **others} if others else {}

    def __len__(self) -> int:
        """Return the number of rules in the current round."""
        return len(self._rules)

    @property
    def cost(self) -> float:
        """Runs of full length that both rounds need at most."""
        return SHORT * len(self._rules) + self._cost_of_full_runs

    @property
    def _cost_of_full_runs(self) -> float:
        return float(self._effort.blocks * (1 + (BEST + 1) * len(self._effort.second)))

    @property
    def later(self) -> float:
        """The same for the rounds after the current one."""
        return self._cost_of_full_runs if self._round == 0 else 0.0

    def candidates(self) -> list[Candidate]:
        """Return the candidates of the current round; none if the comparison is over."""
        if self._round > 1:
            return []
        fidelity, blocks = (SHORT, 1) if self._round == 0 else (1.0, self._effort.blocks)
        first = FIRST_BLOCK + self._round
        return [
            Candidate(f"{PHASE}:{self._round}:{i}:{block}", rule, fidelity, first + block,
                      self._lr, PHASE, varied=True)
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
            ranked = [self._rules[rule] for rule in sorted(sums, key=sums.__getitem__)]
            self._rules = {self.rule: Form(), **self._rules_of(self._second_round(ranked))}
        self._round += 1

    def _second_round(self, ranked: Sequence[Form]) -> list[Form]:
        """Return the forms of the second round.

        Args:
            ranked: Those of the first round, best first; among them the rule itself.
        """
        order = list(dict.fromkeys(form.hidden for form in ranked if form.hidden))
        chosen = list(dict.fromkeys([*order[:BEST], *_combined(order)]))
        return [Form(ways, factor) for ways in chosen for factor in self._effort.second]

    def _rules_of(self, forms: Sequence[Form]) -> dict[Rule, Form]:
        """Return the rule in other forms, with these; those outside of the limits are left out."""
        found = {}
        for form in forms:
            other = with_form(self.rule, form, self._space)
            if other is not None and self._allows(other):
                found[other] = form
        return found


def _combined(order: Sequence[Ways]) -> list[Ways]:
    """Return the best way after `orth` and the best way before it, around `orth`."""
    after = next((ways[0] for ways in order if len(ways) == 2 and ways[1] == ORTH), None)
    before = next((ways[1] for ways in order if len(ways) == 2 and ways[0] == ORTH), None)
    return [(after, ORTH, before)] if after and before else []


def with_form(rule: Rule, form: Form, space: Space) -> Rule | None:
    """Return a rule for roles in another form.

    What the rule orthogonalises for hidden matrices is normalised in other ways. None if there is
    no such expression, or if the result is outside the space's operators.
    """
    sides = sides_of(rule)
    if sides is None:
        return None
    hidden, rest = sides.hidden, sides.rest
    if form.hidden:
        direction = str(sides.momentum)
        for way in reversed(form.hidden):
            direction = WAYS[way].format(direction)
        size = _SIZES.get(form.hidden[0], "{0}").format(direction)
        hidden = Rule.parse(f"{form.factor * sides.size!r}*({size})")
    if form.rest:
        size = REST[form.rest].format(sides.momentum)
        rest = Rule.parse(f"{form.size * weight(rest)!r}*({size})")
    if not (space.knows(hidden) and space.knows(rest)):
        return None
    return sides.with_sides(hidden, rest)
