"""The record of one evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import Any

from optsmith._stored import damaged, plain, read
from optsmith.optim import Parameters, RuleOptimizer, is_baseline
from optsmith.rules import Rule


class Status(StrEnum):
    """How an evaluation ended."""

    OK = "ok"
    REJECTED = "rejected"  # trained, but its score is not better than the threshold
    EARLY_STOPPED = "early_stopped"  # every learning rate was stopped early
    DIVERGED = "diverged"  # the score is not a finite number
    FAILED = "failed"  # raised an error
    TIMED_OUT = "timed_out"
    LOST = "lost"  # the machine failed, not the rule: its process died, or there was no memory


@dataclass(frozen=True, slots=True)
class GridPoint:
    """One learning rate of the grid.

    Attributes:
        lr: The learning rate.
        score: Its score on the proxy; None if it was stopped.
        stopped: Reason for stopping; empty if it was not stopped.
    """

    lr: float
    score: float | None
    stopped: str = ""


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The result of one recipe (a rule or a baseline) on one task.

    Attributes:
        recipe: The text of the rule, or the name of the baseline.
        status: How it ended.
        score: Mean over the seeds; None unless the status is `ok` or `rejected`.
        lr: The best learning rate; None when the grid found none, or the recipe has none.
        at_edge: Whether it is the first or last of the grid; a better one may lie outside.
        grid: Every learning rate tried.
        seeds: Seeds of the scoring runs; never those that chose the learning rate.
        scores: The score of each seed.
        metrics: Metrics of the task at the end of each run, by name, one number per seed.
        selection: Score on selection seeds at full length, by which the best rule and the best
            opponent of a study are chosen; None if there was no such choice.
        curve: The signal over the run, mean over the seeds, thinned: (step, value).
        steps: Length of each run.
        trained: Number of training steps, including those of the grid.
        seconds: Time of the evaluation.
        ms_per_step: Milliseconds per training step, of model and optimizer.
        state_bytes: Bytes of optimizer state per parameter.
        peak_bytes: Peak memory of the process, or of torch on the GPU, until the end.
        error: Error message in one line.
        traceback: Traceback of that error, without the frames of Optsmith that lead to it.
    """

    recipe: str
    status: Status
    score: float | None = None
    lr: float | None = None
    at_edge: bool = False
    grid: tuple[GridPoint, ...] = ()
    seeds: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    metrics: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    selection: float | None = None
    curve: tuple[tuple[int, float], ...] = ()
    steps: int = 0
    trained: int = 0
    seconds: float = 0.0
    ms_per_step: float = math.nan
    state_bytes: float = math.nan
    peak_bytes: float = math.nan
    error: str = ""
    traceback: str = ""

    @cached_property
    def rule(self) -> Rule:
        """The rule; fails for baselines."""
        return Rule.parse(self.recipe)

    @property
    def spread(self) -> float:
        """Standard deviation over the seeds; NaN with fewer than two."""
        return mean_and_spread(self.scores)[1]

    def __repr__(self) -> str:
        score = "" if self.score is None else f", score {self.score:.5g} ± {self.spread:.2g}"
        lr = "" if self.lr is None else f", lr {self.lr:g}"
        return f"<Evaluation {self.recipe}: {self.status.value}{score}{lr}>"

    def optimizer(
        self, params: Parameters, total_steps: int | None = None, **settings: Any
    ) -> RuleOptimizer:
        """Return the rule as an optimizer with the tuned learning rate.

        Args:
            params: A module, parameters, named parameters, or groups of them.
            total_steps: Length of the run, which decays need.
            settings: Other arguments of `RuleOptimizer`; `lr` replaces the tuned learning rate.
        """
        settings.setdefault("lr", self.lr)
        return RuleOptimizer(params, self.rule, total_steps=total_steps, **settings)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data; numbers that are not finite are None."""
        data: dict[str, Any] = plain({f.name: getattr(self, f.name) for f in fields(self)})
        return data

    @classmethod
    def from_json(cls, data: Any, what: str = "the evaluation") -> Evaluation:
        """Return the evaluation that `to_json` wrote.

        Args:
            data: The plain data.
            what: Description of the evaluation, for messages.

        Raises:
            StudyError: The data is damaged.
        """
        found = read(cls, data, what)
        rated = found.lr is not None or is_baseline(found.recipe)  # some baselines have no rate
        if found.status is Status.OK and (found.score is None or not rated):
            raise damaged(what, 'the status is "ok", but there is no score or no learning rate')
        return found


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation; the standard deviation needs two values, else NaN."""
    mean = sum(values) / len(values) if values else math.nan
    if len(values) < 2:
        return mean, math.nan
    # hypot does not overflow, unlike the sum of squares.
    return mean, math.hypot(*(v - mean for v in values)) / math.sqrt(len(values) - 1)
