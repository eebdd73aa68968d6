"""What a study claims about its best rule, with the evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from optsmith.evaluation._paired import Paired
from optsmith.evaluation._sentences import (
    SAME_COST,
    Measured,
    compared,
    contradicts,
    diverged,
    named,
    outcome,
    reached,
    slower,
)
from optsmith.evaluation._speed_up import SpeedUp
from optsmith.task import Metric, Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The winner under another setting, on report seeds.

    Attributes:
        setting: What was changed, such as "half the learning rate".
        against: What it is compared with: the winner's own run, or the opponent under the same
            setting.
        paired: The comparison.
    """

    setting: str
    against: str
    paired: Paired


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """A part of the rule, and what it is worth: the rule without it, on selection seeds.

    Attributes:
        without: Text of the part.
        paired: The rule without it, against the rule.
        removed: Whether it was left out of the final rule, because it makes no difference.
        curve: The signals over the run, thinned: (step, without the part, with it).
    """

    without: str
    paired: Paired
    removed: bool = False
    curve: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The comparison of the best rule with the best opponent, both chosen on selection seeds.

    Attributes:
        rule: The best rule.
        lr: Its learning rate.
        opponent: The best opponent, learning rate and schedule tuned; empty if there was none.
        opponent_lr: Its learning rate; None if it has none.
        paired: The rule against the opponent in the objective, on report seeds.
        metrics: The same in each held-out metric, by name.
        looks: How often the comparison was looked at.
        stopped: Why an undecided comparison got no more seeds: "seeds" (the last look was done) or
            "time"; empty if it is decided.
        speed_up: How much less training the rule needs for the opponent's result; None if that was
            not measured.
        step_ratio: Time of a training step with the rule, divided by that with the opponent.
        checks: The rule under other settings.
        ablation: What each part of the rule is worth.
        equally_tuned: The rule against an opponent whose other constants were tuned as well; None
            if there was none.
        equally_tuned_opponent: That opponent.
        known: Name of the known rule that it equals, such as "Lion", or "Muon, tuned"; else empty.
        recommended: The recipe that the study recommends: the rule or the opponent.
        selection_seeds: Seeds that chose learning rates, the rule and the opponent.
        report_seeds: Seeds of the comparison.
        trained: Training steps by purpose: `search`, `opponents`, `tuning`, `report`, `checks`.
        rule_score: Mean score of the rule on report seeds; NaN if a run diverged.
        opponent_score: The same of the opponent.
        metric_means: Means of the rule and of the opponent in each held-out metric, by name.
    """

    rule: str
    lr: float
    opponent: str
    opponent_lr: float | None
    paired: Paired
    metrics: Mapping[str, Paired] = field(default_factory=dict)
    looks: int = 1
    stopped: str = ""
    speed_up: SpeedUp | None = None
    step_ratio: float | None = None
    checks: tuple[Check, ...] = ()
    ablation: tuple[Ablation, ...] = ()
    equally_tuned: Paired | None = None
    equally_tuned_opponent: str = ""
    known: str = ""
    recommended: str
    selection_seeds: tuple[int, ...] = ()
    report_seeds: tuple[int, ...] = ()
    trained: Mapping[str, int] = field(default_factory=dict)
    rule_score: float = math.nan
    opponent_score: float = math.nan
    metric_means: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def verdict(
        self, objective: Objective, metrics: Mapping[str, Metric], rule: str | None = None
    ) -> str:
        """Return the claim in a few sentences; the first one is on score and held-out metrics.

        Args:
            objective: The objective of the task.
            metrics: Declared metrics of the task, by name.
            rule: Text of the rule, if it is to be shown in another form.
        """
        rule = rule or self.rule
        if not self.opponent:
            return f"{rule} was not compared with an opponent."
        score = Measured(objective, self.paired, self.rule_score, self.opponent_score)
        sentences = [compared(rule, self.opponent, score, self._measured(metrics))]
        if self.known:
            sentences.append(named(self.known))
        if score.better is None and self.stopped == "time":
            sentences.append("The time is used up; more seeds may tell them apart.")
        ratio = math.nan if self.step_ratio is None else self.step_ratio
        # Without a decided difference, a speed-up would be a claim that is not corrected for looks.
        if score.better and self.speed_up is not None and self.speed_up.bound != "above":
            sentences += reached(self.opponent, objective, self.speed_up, ratio)
        elif ratio > 1 + SAME_COST:
            sentences.append(f"{slower(ratio)} as with {self.opponent}.")
        if self.equally_tuned is not None:
            against = f"{self.equally_tuned_opponent}, equally tuned,"
            # What the change is relative to is about the same.
            tuned = Measured(objective, self.equally_tuned, opponent=self.opponent_score)
            sentences.append(f"It {outcome(tuned, against)}.")
        sentences += diverged(rule, self.opponent, self.paired)
        if self.recommended == self.opponent:
            lr = "" if self.opponent_lr is None else f" with lr {self.opponent_lr:.4g}"
            sentences.append(f"Recommended: {self.opponent}{lr}: no rule that was found is better.")
        return " ".join(sentences)

    def contradicted(self, objective: Objective, metrics: Mapping[str, Metric]) -> bool:
        """Return whether a held-out metric contradicts the objective, as the verdict says."""
        better = self.paired.better(objective.direction)
        return any(contradicts(metric, better) for metric in self._measured(metrics))

    def _measured(self, metrics: Mapping[str, Metric]) -> list[Measured]:
        """Return the held-out metrics."""
        return [
            Measured(
                metrics.get(name) or Metric(name),
                paired,
                *self.metric_means.get(name, (math.nan, math.nan)),
            )
            for name, paired in self.metrics.items()
        ]
