"""Comparison of studies of the same task: best score so far against cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from optsmith._errors import StudyError
from optsmith.evaluation import Status, compare_evaluations, frame
from optsmith.study._settings import flat
from optsmith.task import Objective

if TYPE_CHECKING:  # a study imports this module
    from optsmith.study._study import Study

By = Literal["runs", "evaluations"]
"""What cost is counted in: training steps as full runs, or evaluations."""

_IGNORED = ("seed", "start_given")
"""Settings in which studies of a group may differ: rules to start from may come from two files."""


@dataclass(frozen=True, slots=True)
class SoFar:
    """The best search score at a point of a search.

    Attributes:
        evaluations: Number of evaluations until then.
        runs: Training steps until then, as a number of full runs.
        score: The best search score.
    """

    evaluations: int
    runs: float
    score: float


@dataclass(frozen=True, slots=True)
class BandPoint:
    """The best search scores of several studies at the same cost.

    Attributes:
        cost: The cost.
        middle: Median of the studies.
        low: Smallest score.
        high: Largest score.
    """

    cost: float
    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class StudyGroup:
    """Studies whose settings differ in the seed only.

    Attributes:
        label: The algorithm, and the settings in which groups of that algorithm differ.
        studies: The studies, in the order of their seeds.
    """

    label: str
    studies: tuple[Study, ...]

    def band(self, by: By = "runs") -> list[BandPoint]:
        """Return the median and the range of the best search scores, where all studies have one.

        A study that has ended keeps its best score.
        """
        curves = [curve for study in self.studies if (curve := best_so_far(study))]
        if not curves:
            return []
        start = max(getattr(curve[0], by) for curve in curves)
        costs = sorted({getattr(p, by) for curve in curves for p in curve})
        return [_across(curves, by, cost) for cost in costs if cost >= start]

    def row(self) -> dict[str, Any]:
        """Return medians over the studies; None where no study has a value."""
        findings = [study.best() for study in self.studies if study.best(1)]
        curves = [curve for study in self.studies if (curve := best_so_far(study))]
        return {
            "group": self.label,
            "studies": len(self.studies),
            "search score": _median(curve[-1].score for curve in curves),
            "held-out score": _median(f.held_out_score for f in findings),
            "change": _median(map(_change, self.studies)),
            "evaluations": _median(len(study.records) for study in self.studies),
            "runs": _median(map(total_runs, self.studies)),
            "seconds": _median(study.summary.get("seconds") for study in self.studies),
        }


@dataclass(frozen=True)
class StudyComparison:
    """Studies of one task, grouped by algorithm and settings.

    Attributes:
        objective: The objective of the task.
        groups: The groups; studies that differ in the seed only form one group.
    """

    objective: Objective
    groups: tuple[StudyGroup, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per group.

        Columns: number of studies; medians of the best search score, of the winner's held-out
        score, of its change against the best opponent (-0.03: 3 % less; for fractions such as
        accuracies, 3 points less), of the number of evaluations, of the cost in full runs
        (opponents and final evaluation included) and of the seconds.
        """
        return [group.row() for group in self.groups]

    def table(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return frame(self.rows())

    def plot(self) -> Any:
        """Return a matplotlib figure of the best score so far, with bands over seeds."""
        from optsmith.report import plot_studies  # late, because report depends on this package

        return plot_studies(self)

    def _repr_html_(self) -> str:
        from optsmith.report import studies_html  # late, because report depends on this package

        return studies_html(self)


def compare_studies(studies: Iterable[Study]) -> StudyComparison:
    """Compare studies of the same task.

    Args:
        studies: At least one study; they may still be running.

    Raises:
        StudyError: There is no study, or their scores cannot be compared.
    """
    distinct = list({(study.location, study.name): study for study in studies}.values())
    if not distinct:
        raise StudyError("there is no study to compare")
    first, *others = distinct
    for other in others:
        _check_comparable(first, other)
    alike: dict[str, list[Study]] = {}
    for study in distinct:
        key = {name: value for name, value in _asked(study).items() if name not in _IGNORED}
        alike.setdefault(repr(sorted(key.items())), []).append(study)
    groups = [sorted(group, key=lambda study: study.settings["seed"]) for group in alike.values()]
    labels = _labels([_asked(group[0]) for group in groups])
    return StudyComparison(
        first.objective,
        tuple(StudyGroup(label, tuple(g)) for label, g in zip(labels, groups, strict=True)),
    )


def best_so_far(study: Study) -> list[SoFar]:
    """Return the points of a search at which its best score changed, and its end.

    As in the ranking of a study, only evaluations at the highest fidelity count, and a rule with
    several blocks of seeds has the mean of their scores.
    """
    pairs = list(zip(study.records, study.evaluations, strict=True))
    accepted = {i for i, (_, e) in enumerate(pairs) if e.status is Status.OK}
    highest = max((pairs[i][0].fidelity for i in accepted), default=1.0)
    full_run = study.settings["protocol"]["final_steps"]
    scores: dict[tuple[str, float | None], list[float]] = {}
    points: list[SoFar] = []
    trained = 0
    for i, (record, evaluation) in enumerate(pairs):
        trained += evaluation.trained
        if i not in accepted or record.fidelity != highest or evaluation.score is None:
            continue
        scores.setdefault((record.rule, record.fixed_lr), []).append(evaluation.score)
        means = (sum(values) / len(values) for values in scores.values())
        best = min(means, key=study.objective.key)
        if not points or best != points[-1].score:
            points.append(SoFar(i + 1, trained / full_run, best))
    if points and points[-1].evaluations < len(pairs):
        points.append(SoFar(len(pairs), trained / full_run, points[-1].score))
    return points


def total_runs(study: Study) -> float:
    """Return all training steps of a study, as a number of full runs."""
    claim = study.claim
    if claim is not None and claim.trained:
        trained = sum(claim.trained.values())
    else:
        trained = sum(e.trained for e in (*study.evaluations, *study.final.rows))
    return float(trained / study.settings["protocol"]["final_steps"])


def _change(study: Study) -> float | None:
    """Return the change of the winner's held-out score against the best opponent's."""
    if study.claim is not None:
        claim = study.claim
        return claim.paired.in_unit(study.objective.unit, claim.opponent_score).change
    opponent = next((e for e in study.final.baselines if e.score is not None), None)
    mine = study.best().held_out if study.best(1) else None
    if opponent is None or mine is None:
        return None
    paired = compare_evaluations(mine, opponent, study.objective)
    return paired.in_unit(study.objective.unit, opponent.score).change


def _across(curves: Sequence[list[SoFar]], by: By, cost: float) -> BandPoint:
    scores = [next(p.score for p in reversed(c) if getattr(p, by) <= cost) for c in curves]
    return BandPoint(cost, median(scores), min(scores), max(scores))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and value == value]
    return median(known) if known else None


def _check_comparable(one: Study, other: Study) -> None:
    """Check that two studies have the same task, objective and protocol."""
    between = f"the studies {one.name} and {other.name} cannot be compared"
    tasks = one.settings["task"], other.settings["task"]
    if tasks[0] != tasks[1]:
        raise StudyError(f"{between}: their tasks are {tasks[0]} and {tasks[1]}")
    if one.objective != other.objective:
        raise StudyError(f"{between}: their objectives differ")
    signals = one.about["first_signal"], other.about["first_signal"]
    if abs(signals[0] - signals[1]) > 1e-3 * abs(signals[0]):
        raise StudyError(f"{between}: their models or data differ")
    protocols = one.settings["protocol"], other.settings["protocol"]
    for name, value in protocols[0].items():
        if name != "final_seeds" and value != protocols[1].get(name):  # a matter of precision only
            raise StudyError(
                f"{between}: their protocols differ, {name} is {value} and {protocols[1].get(name)}"
            )


def _asked(study: Study) -> dict[str, Any]:
    """Return the settings that a study was asked for; a plan may have changed them by the clock."""
    return flat(study.settings["asked"] or study.settings)


def _labels(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one label per group: the algorithm, and what differs between groups with it."""
    labels = []
    for mine in settings:
        alike = [other for other in settings if other["algorithm"] == mine["algorithm"]]
        parts = [
            f"{name} {'none' if value is None else value}"
            for name, value in mine.items()
            if name not in (*_IGNORED, "space_hash") and any(value != o.get(name) for o in alike)
        ]
        labels.append(", ".join([str(mine["algorithm"]), *parts]))
    return labels
