"""One finished evaluation, as a record of ours and as a trial of Optuna's."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from optsmith._errors import StudyError

State = Literal["ok", "pruned", "failed"]

CURVE_POINTS = 20
"""How many points of a curve are kept as intermediate values."""

# Fixed, because Optuna wants every trial of a study to have the same.
_DISTRIBUTIONS: dict[str, FloatDistribution | IntDistribution] = {
    "lr": FloatDistribution(1e-12, 1e6, log=True),
    "length": IntDistribution(1, 1000),
}
_TO_TRIAL = {
    "ok": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
_TO_STATE: dict[TrialState, State] = {
    TrialState.COMPLETE: "ok",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


@dataclass(frozen=True)
class Record:
    """One finished evaluation, and what was asked for.

    Attributes:
        candidate: The searcher's name for the candidate; with the fidelity, it names the record.
        rule: Text of the rule.
        fidelity: Share of the run's length that was asked for.
        block: Block of selection seeds that was asked for.
        fixed_lr: Learning rate that was asked for; None when it was tuned.
        phase: The part of the search that it belongs to.
        state: What Optuna shows: complete, pruned or failed. An `ok` without a finite score is
            read back as `failed`.
        score: The score; None when there is none or it is not finite, and always when failed.
        lr: The best learning rate.
        length: Length of the rule.
        curve: Step and value of the signal; a store keeps at most 20 points, all finite.
        data: The whole evaluation as JSON; a store keeps what is not a finite number as None.
    """

    candidate: str
    rule: str
    fidelity: float
    block: int
    fixed_lr: float | None
    phase: str
    state: State
    score: float | None
    lr: float | None
    length: int
    curve: tuple[tuple[int, float], ...]
    data: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, float]:
        """Candidate and fidelity, which name the record."""
        return self.candidate, self.fidelity


_ASKED = ("candidate", "rule", "fidelity", "block", "fixed_lr", "phase")


def to_trial(record: Record) -> FrozenTrial:
    """Return a record as a trial that one operation can add.

    Raises:
        StudyError: Its data cannot be written as JSON.
    """
    score = record.score if record.score is not None and math.isfinite(record.score) else None
    failed = record.state == "failed" or (record.state == "ok" and score is None)
    attributes: dict[str, Any] = {name: getattr(record, name) for name in _ASKED}
    what = f"the evaluation of candidate {record.candidate}"
    attributes["evaluation"] = plain(record.data, what)
    parameters: dict[str, Any] = {}
    for name, value in (("lr", record.lr), ("length", record.length)):
        if value is None or not math.isfinite(value):
            continue
        fits = _DISTRIBUTIONS[name].low <= value <= _DISTRIBUTIONS[name].high
        # What a parameter cannot hold is an attribute; a plot goes without it.
        (parameters if fits else attributes)[name] = value
    trial = create_trial(
        state=TrialState.FAIL if failed else _TO_TRIAL[record.state],
        value=None if failed else score,
        params=parameters,
        distributions={name: _DISTRIBUTIONS[name] for name in parameters},
        user_attrs=attributes,
        intermediate_values=_thinned(record.curve),
    )
    _set_duration(trial, record.data.get("seconds"))
    return trial


def from_trial(trial: FrozenTrial) -> Record | None:
    """Return the record in a trial; None if it is not one of ours."""
    attributes = trial.user_attrs
    if trial.state not in _TO_STATE or "candidate" not in attributes:
        return None
    values = {**attributes, **trial.params}
    return Record(
        **{name: attributes[name] for name in _ASKED},
        state=_TO_STATE[trial.state],
        score=trial.value,
        lr=values.get("lr"),
        length=values["length"],
        curve=tuple(sorted(trial.intermediate_values.items())),
        data=attributes["evaluation"],
    )


def plain(value: Any, what: str) -> Any:
    """Return a copy of `value` as JSON has it, with None for what is not a finite number.

    Raises:
        StudyError: JSON has no word for something in it; the message begins with `what`.
    """
    try:
        return json.loads(json.dumps(value), parse_constant=lambda _: None)
    except (TypeError, ValueError) as error:
        raise StudyError(f"{what} cannot be written as JSON: {error}") from None


def _thinned(curve: tuple[tuple[int, float], ...]) -> dict[int, float]:
    points = sorted({int(step): value for step, value in curve if math.isfinite(value)}.items())
    if len(points) <= CURVE_POINTS:
        return dict(points)
    last = len(points) - 1
    return dict(points[round(i * last / (CURVE_POINTS - 1))] for i in range(CURVE_POINTS))


def _set_duration(trial: FrozenTrial, seconds: Any) -> None:
    """Date the trial's begin back, for Optuna's plots of time."""
    if isinstance(seconds, int | float) and 0 <= seconds < 1e8 and trial.datetime_complete:
        trial.datetime_start = trial.datetime_complete - timedelta(seconds=seconds)
