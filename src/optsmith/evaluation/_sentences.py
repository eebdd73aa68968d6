"""Sentences of a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optsmith.evaluation._paired import FEWEST, Paired, printed_in
from optsmith.evaluation._speed_up import SpeedUp
from optsmith.task import Metric, Objective, factor_of

SAME_COST = 0.05
"""Steps whose times differ by less than this share count as equally expensive."""

TO = "–"  # noqa: RUF001 - an en dash
"""Between the ends of an interval."""

_MANY = 1000.0
"""Changes of more percent than this are not printed exactly."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A quantity of a rule and of its opponent.

    Attributes:
        quantity: The objective or a metric.
        paired: The rule against the opponent.
        rule: Mean of the rule; NaN if it is unknown.
        opponent: Mean of the opponent.
    """

    quantity: Objective | Metric
    paired: Paired
    rule: float = math.nan
    opponent: float = math.nan

    @property
    def secondary(self) -> bool:
        """Whether the quantity is a secondary metric."""
        return isinstance(self.quantity, Metric) and self.quantity.secondary

    @property
    def better(self) -> bool | None:
        """Whether the rule is better; None if that is not decided."""
        return self.paired.better(self.quantity.direction)

    @property
    def clear(self) -> bool | None:
        """Whether the rule is better, decided or by about one standard error; else None."""
        paired = self.paired
        if self.better is not None or not abs(paired.change) > (paired.high - paired.low) / 4:
            return self.better
        return (paired.change < 0) == (self.quantity.direction == "minimize")

    @property
    def means(self) -> str:
        """Both means, such as "87.1 % against 88.0 %"; empty if one is unknown."""
        if not (math.isfinite(self.rule) and math.isfinite(self.opponent)):
            return ""
        factor, unit = factor_of(self.quantity.unit), self.quantity.unit
        close = abs(self.rule - self.opponent) * factor < 0.1
        form = ".4g" if factor == 1 else ".2f" if close else ".1f"
        values = (f"{value * factor:{form}} {unit}" for value in (self.rule, self.opponent))
        return " against ".join(value.rstrip() for value in values)

    @property
    def amount(self) -> str:
        """The size of the change with its interval and the number of seeds."""
        factor, unit = self._scale()
        paired, seeds = self.paired, count(self.paired.seeds)
        size = factor * abs(paired.change)
        if unit == " %" and size > _MANY:
            return f"more than {_MANY:.0f} % ({seeds})"
        places = _places(size)
        if not (math.isfinite(paired.low) and math.isfinite(paired.high)):
            return f"{size:.{places}f}{unit} ({seeds})"
        low, high = sorted((factor * abs(paired.low), factor * abs(paired.high)))
        return (
            f"{size:.{places}f}{unit} (95 %: {low:.{places}f}{TO}{high:.{places}f}{unit}, {seeds})"
        )

    @property
    def within(self) -> str:
        """The largest difference that the interval allows, such as "±1.3 %, 16 seeds"."""
        factor, unit = self._scale()
        largest = factor * max(abs(self.paired.low), abs(self.paired.high))
        seeds = count(self.paired.seeds)
        if not largest <= _MANY:  # also if it is unknown
            return seeds
        return f"±{largest:.{_places(largest)}f}{unit}, {seeds}"

    def _scale(self) -> tuple[float, str]:
        """Return the factor from a relative change to the printed one, and the unit of that."""
        return printed_in(self.quantity.unit, self.opponent)


def compared(rule: str, opponent: str, score: Measured, metrics: Sequence[Measured]) -> str:
    """Return the first sentence of a verdict: the objective and the held-out metrics.

    Metrics that contradict the objective are named first; if none does, the first metric is named.
    Secondary ones come last, and only those that contradict it, if there are others.

    Args:
        rule: The rule.
        opponent: Its opponent.
        score: Their scores.
        metrics: The same in held-out metrics, the most important one first.
    """
    main = [m for m in metrics if not m.secondary] or list(metrics)
    if score.paired.seeds < FEWEST:
        return _too_few(rule, opponent, score, main)
    words = f"{rule} {outcome(score, opponent)}{_on_metrics(score.better, main)}"
    others = [m for m in metrics if m not in main and contradicts(m, score.better)]
    return f"{'; '.join([words, *map(_clause, others)])}."


def _on_metrics(better: bool | None, metrics: Sequence[Measured]) -> str:
    """Return the end of a sentence on the objective: what is to be said of held-out metrics."""
    other_way = [m for m in metrics if contradicts(m, better)]
    if other_way:
        return f", but {' and '.join(map(_clause, other_way))}"
    if not metrics:
        return ""
    first = metrics[0]
    about = f": {first.means}" if first.means else ""
    if first.better is not None:
        return f", and {_clause(first)}"
    if better is None:
        return f", nor in {first.quantity.name}{about}"
    return f"; in {first.quantity.name} they cannot be told apart{about}"


def diverged(rule: str, opponent: str, paired: Paired) -> list[str]:
    """Return sentences on the recipes that diverged on some seeds."""
    counts = ((rule, paired.diverged), (opponent, paired.other_diverged))
    return [f"{name} diverged on {n} of {count(paired.seeds)}." for name, n in counts if n]


def outcome(score: Measured, opponent: str) -> str:
    """Return how a rule compares with an opponent, without a subject."""
    name = score.quantity.name
    if score.better is None:
        return f"cannot be told apart from {opponent} in {name} ({score.within})"
    known = math.isfinite(score.paired.change)  # not if one of them always diverged
    by = f" by {score.amount}" if known else f" ({count(score.paired.seeds)})"
    return f"{'beats' if score.better else 'is worse than'} {opponent} in {name}{by}"


def contradicts(metric: Measured, better: bool | None) -> bool:
    """Return whether a metric is significantly, or clearly in the mean, other than the score.

    A secondary metric only if it is so significantly.
    """
    found = metric.better if better is None or metric.secondary else metric.clear
    return found is not None and found != better


def _clause(metric: Measured) -> str:
    sure = "" if metric.better is not None else " on average, though not significantly"
    about = f": {metric.means}" if metric.means else ""
    return f"its {metric.quantity.name} is {'better' if metric.clear else 'worse'}{sure}{about}"


def _too_few(rule: str, opponent: str, score: Measured, metrics: Sequence[Measured]) -> str:
    seeds = score.paired.seeds
    few = f"{count(seeds)} {'is' if seeds == 1 else 'are'} too few for a claim"
    if not score.means:
        return f"{rule} cannot be compared with {opponent}: {few}."
    shown = [f"{m.quantity.name} {m.means}" for m in metrics[:1] if m.means]
    first = f"{rule} has {score.quantity.name} {score.means} of {opponent}"
    return f"{', and '.join([first, *shown])}; {few}: {FEWEST} are needed."


def reached(opponent: str, objective: Objective, found: SpeedUp, step_ratio: float) -> list[str]:
    """Return sentences on how much less training a rule needs for an opponent's result.

    Args:
        opponent: The opponent.
        objective: The objective of the task.
        found: The share of steps, at most 1.
        step_ratio: Time of a step with the rule, divided by that with the opponent.
    """
    most = "at most " if found.bound == "below" else ""
    steps = f"{most}{100 * found.share:.0f} % of its steps{_range(found)}"
    words = [f"It reaches the {objective.name} of {opponent} in {steps}."]
    if abs(step_ratio - 1) > SAME_COST:
        time = (
            f"{most}{100 * found.share * step_ratio:.0f} % of the time{_range(found, step_ratio)}"
        )
        words.append(f"{slower(step_ratio)}, so it needs {time}.")
    return words


def slower(step_ratio: float) -> str:
    """Return the words on the time of a step, without a full stop."""
    return f"A step takes {step_ratio:.2g} times as long"


def _range(found: SpeedUp, factor: float = 1.0) -> str:
    low, high = 100 * factor * found.low, 100 * factor * found.high
    if math.isnan(low + high) or (found.low == 0 and found.high == 1):
        return ""
    if found.low == 0:
        return f" (95 %: at most {high:.0f} %)"
    if found.high == 1:
        return f" (95 %: {low:.0f} % or more)"
    return f" (95 %: {low:.0f}{TO}{high:.0f} %)"


def named(known: str) -> str:
    """Return the sentence on a known rule, such as "Lion" or "Muon, tuned"."""
    name = known.removesuffix(", tuned")
    return f"It is {name} {'under another name' if name == known else 'with other constants'}."


def count(seeds: int) -> str:
    """Return a number of seeds in words."""
    return f"{seeds} seed{'' if seeds == 1 else 's'}"


def _places(value: float) -> int:
    """Return the decimals that show two digits of a value, at most four."""
    return next((n for n, least in enumerate((10, 1, 0.1, 0.01)) if value >= least), 4)
