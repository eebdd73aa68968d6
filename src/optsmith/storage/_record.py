"""A finished evaluation as a record, and its conversion to and from an Optuna trial."""

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
from optsmith._stored import damaged, read

State = Literal["ok", "pruned", "failed"]

CURVE_POINTS = 20
"""Points of a curve that are stored as intermediate values."""

# Fixed, because Optuna requires the same distributions in all trials of a study.
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
    """A finished evaluation and the candidate that it belongs to.

    Attributes:
        candidate: Id of the candidate; candidate and fidelity identify the record.
        rule: Text of the rule.
        fidelity: Fidelity of the candidate.
        block: Block of selection seeds of the candidate.
        fixed_lr: Fixed learning rate of the candidate; None if it was tuned.
        phase: Part of the search that the candidate belongs to.
        state: State of the Optuna trial: complete, pruned or failed. An `ok` without a finite score
            is read back as `failed`.
        score: The score; None if failed or not finite.
        lr: The best learning rate.
        length: Length of the rule.
        curve: Step and value of the signal; at most 20 points are stored, all finite.
        data: The whole evaluation as JSON; numbers that are not finite are stored as None.
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
        """Candidate and fidelity, which identify the record."""
        return self.candidate, self.fidelity


_CANDIDATE = ("candidate", "rule", "fidelity", "block", "fixed_lr", "phase")


def to_trial(record: Record) -> FrozenTrial:
    """Return a record as a trial, which is added in one operation.

    Raises:
        StudyError: Its data cannot be written as JSON.
    """
    score = record.score if record.score is not None and math.isfinite(record.score) else None
    failed = record.state == "failed" or (record.state == "ok" and score is None)
    attributes: dict[str, Any] = {name: getattr(record, name) for name in _CANDIDATE}
    what = f"the evaluation of candidate {record.candidate}"
    attributes["evaluation"] = plain(record.data, what)
    parameters: dict[str, Any] = {}
    for name, value in (("lr", record.lr), ("length", record.length)):
        if value is None or not math.isfinite(value):
            continue
        fits = _DISTRIBUTIONS[name].low <= value <= _DISTRIBUTIONS[name].high
        # Values outside of a distribution are stored as attributes; plots do not show them.
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


def from_trial(trial: FrozenTrial, study: str) -> Record | None:
    """Return the record in a trial; None for trials of other programs.

    Args:
        trial: The trial.
        study: Which study it belongs to, for messages.

    Raises:
        StudyError: The record is damaged.
    """
    what = f"the record of trial {trial.number} of {study}"
    attributes = trial.user_attrs
    if not isinstance(attributes, Mapping):
        raise damaged(what, "its attributes are not an object")
    if trial.state not in _TO_STATE or not {"candidate", "evaluation"} & set(attributes):
        return None
    stored = {"lr": None, **attributes, **trial.params}
    values = {name: stored[name] for name in (*_CANDIDATE, "lr", "length") if name in stored}
    if "evaluation" in attributes:
        values["data"] = attributes["evaluation"]
    values["state"] = _TO_STATE[trial.state]
    values["score"] = trial.values[0] if isinstance(trial.values, list) and trial.values else None
    values["curve"] = [[step, value] for step, value in sorted(trial.intermediate_values.items())]
    return read(Record, values, what)


def plain(value: Any, what: str) -> Any:
    """Return a copy of `value` as JSON has it, with None for numbers that are not finite.

    Raises:
        StudyError: It cannot be represented in JSON; the message begins with `what`.
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
    """Set the start of a trial to its end minus its duration, for Optuna's plots of time."""
    if isinstance(seconds, int | float) and 0 <= seconds < 1e8 and trial.datetime_complete:
        trial.datetime_start = trial.datetime_complete - timedelta(seconds=seconds)
