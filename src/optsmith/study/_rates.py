"""How long training takes, learned from the evaluations that are done."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from optsmith.optim import form_of, is_baseline, parse_recipe
from optsmith.study._work import Runs, Work, wall_time
from optsmith.training import Stacking

DECAY = 0.95
"""Weight of an evaluation relative to the next one, so that rates are recent."""

TRUST = 4
"""Evaluations after which a measured rate counts as much as what was expected."""

LEAST_COPY_COST, BYTES_PER_LOOP = 0.045, 6e6
"""Cost of a step of one more copy, relative to what a step of a stack costs anyway: the least that
was measured, and the bytes of a copy for which both are equal."""


class Kind(Enum):
    """Kinds of recipes whose steps take different times."""

    RULE = "rule"
    FORM = "opponent that can be written as a rule, and is trained in stacks"
    PLAIN = "opponent that is trained one run at a time"

    @classmethod
    def of(cls, recipe: str) -> Kind:
        """Return the kind of a recipe."""
        if not is_baseline(recipe):
            return cls.RULE
        return cls.PLAIN if form_of(parse_recipe(recipe)) is None else cls.FORM


MIXTURE_COST = 1.6
"""Usual cost of a step of a rule that searchers of constants find, relative to a known one, if that
is not measured."""

_LIKE = {
    Kind.RULE: (Kind.RULE, Kind.FORM, Kind.PLAIN),
    Kind.FORM: (Kind.FORM, Kind.RULE, Kind.PLAIN),
    Kind.PLAIN: (Kind.PLAIN, Kind.FORM, Kind.RULE),
}


class Rates:
    """Predicts the seconds of evaluations from those of earlier ones.

    A step of a stack has a cost of its own, and one per copy. So time is proportional to *loops*:
    steps of stacks, plus the steps of copies times their relative cost. Each kind of recipe has its
    own rate, and so have short runs (those of the search, which may be runs of a proxy) and full
    ones, because only the latter include the metrics on test data.

    Args:
        stacking: Which runs are trained together.
        ratio: Time of a step of a full run, relative to a short one.
        rule_cost: Usual cost of a step of a rule, relative to opponents.
    """

    def __init__(self, stacking: Stacking, ratio: float = 1.0, rule_cost: float = 1.0) -> None:
        self._copies, self._ratio = stacking.copies, ratio
        self._costs = {Kind.RULE: rule_cost, Kind.FORM: 1.0, Kind.PLAIN: 1.0}
        self._copy_cost = LEAST_COPY_COST + stacking.copy_bytes(2) / BYTES_PER_LOOP
        self._rates = {(kind, short): Rate() for kind in Kind for short in (True, False)}

    @property
    def stacks(self) -> bool:
        """Whether runs are trained in stacks."""
        return self._copies > 1

    @property
    def known(self) -> bool:
        """Whether there was an evaluation."""
        return any(rate.known for rate in self._rates.values())

    def add(self, kind: Kind, short: bool, seconds: float, loops: float) -> None:
        """Count an evaluation."""
        self._rates[kind, short].add(seconds, loops)

    def loops(self, kind: Kind, runs: Sequence[Runs], together: float) -> float:
        """Return the loops of an evaluation: its share of those of its job.

        Args:
            kind: What is evaluated.
            runs: The runs of the evaluation.
            together: Evaluations of the job.
        """
        return sum(self._loops(kind, every, together) for every in runs)

    def _loops(self, kind: Kind, runs: Runs, together: float) -> float:
        if kind is Kind.PLAIN or self._copies == 1:
            return runs.trained * (1 + self._copy_cost)
        width = together * runs.count / runs.sets  # a larger one is several stacks
        stacks = runs.sets / together * max(1.0, width / self._copies)
        return runs.steps * (stacks + self._copy_cost * runs.count)

    def per_loop(self, kind: Kind, short: bool) -> float:
        """Return the seconds per loop of similar evaluations, the most similar ones first."""
        factor = 1 / self._ratio if short else self._ratio
        for like in _LIKE[kind]:
            same, other = self._rates[like, short], self._rates[like, not short]
            if same.known or other.known:
                expected = factor * other.get() if other.known else same.get()
                return self._costs[kind] / self._costs[like] * same.blended(expected)
        return 0.0

    def job(self, kinds: Sequence[Kind], runs: Sequence[Sequence[Runs]], short: bool) -> float:
        """Return the seconds of a job, given the kind and the runs of each evaluation."""
        pairs = zip(kinds, runs, strict=True)
        return sum(self.loops(k, r, len(kinds)) * self.per_loop(k, short) for k, r in pairs)

    def work(self, work: Work, plain_share: float, short: bool, group: int, workers: int) -> float:
        """Return the seconds of some work on all workers.

        Args:
            work: The work.
            plain_share: Share of its opponents that are trained one run at a time.
            short: Whether its runs are those of the search.
            group: Maximum number of evaluations per job.
            workers: Number of workers.
        """
        opponents = 1 - work.of_rules
        shares = {
            Kind.RULE: work.of_rules,
            Kind.FORM: opponents * (1 - plain_share),
            Kind.PLAIN: opponents * plain_share,
        }

        def each(together: int) -> float:
            return sum(
                share * self.loops(kind, work.runs, together) * self.per_loop(kind, short)
                for kind, share in shares.items()
                if share
            )

        return wall_time((size * each(size) for size in work.jobs(group)), workers)


class Rate:
    """A ratio of two sums in which recent terms weigh more."""

    def __init__(self) -> None:
        self.over = self.under = self.count = 0.0

    def add(self, over: float, under: float) -> None:
        """Add a term to each sum."""
        self.over, self.under = DECAY * self.over + over, DECAY * self.under + under
        self.count = DECAY * self.count + 1

    @property
    def known(self) -> bool:
        """Whether the ratio is defined."""
        return self.under > 0

    def get(self) -> float:
        """Return the ratio."""
        return self.over / self.under

    def blended(self, expected: float) -> float:
        """Return the ratio, with an expectation that weighs as much as `TRUST` terms."""
        share = self.count / (self.count + TRUST) if self.known else 0.0
        return share * self.get() + (1 - share) * expected if share else expected
