"""Attributes of a study: facts about the task, and the state of the search."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from optsmith._stored import plain, read
from optsmith._version import __version__
from optsmith.storage import Direction
from optsmith.study._tally import Counts
from optsmith.task import Metric, Objective, Task
from optsmith.training import Stacking

SETTINGS, ABOUT, SUMMARY, FINAL = "settings", "about", "summary", "final:"
"""Names of the attributes; final evaluations have a hash of the recipe after the prefix."""

CLAIM, RACED = "claim", "raced"
"""Attributes of a finished study: what it claims, and the opponents that left the race."""


@dataclass(frozen=True, kw_only=True)
class StoredMetric:
    """A metric without its name and function."""

    unit: str
    direction: Direction
    secondary: bool


@dataclass(frozen=True, kw_only=True)
class About:
    """Facts about the task and the machine, stored when a study is created.

    Attributes:
        description: The task in one line.
        notes: Remarks on its data, one sentence each.
        applied: Sentence that says how a step applies the rule's value.
        usage: Code that uses a rule; empty: the code of an optimizer.
        source: How a command names the task; empty: it was made in Python.
        objective: The objective of the task.
        metrics: Declared metrics of the task, by name.
        first_signal: Identifies the model and the data; see `preflight`.
        untrained: Score of an untrained model.
        stacking: Which runs are trained together.
        versions: Versions of Optsmith, Python and torch, and the kind of machine.
        created: Date and time.
    """

    description: str
    notes: tuple[str, ...]
    applied: str
    usage: str
    source: str
    objective: Objective
    metrics: Mapping[str, StoredMetric]
    first_signal: float
    untrained: float
    stacking: Stacking
    versions: Mapping[str, str]
    created: str

    @classmethod
    def of(cls, task: Task, signal: float, stacking: Stacking, untrained: float) -> About:
        """Return the facts about a task, on this machine and now."""
        return cls(
            description=task.description,
            notes=task.notes,
            applied=task.applied,
            usage=task.usage,
            source=task.source,
            objective=task.objective,
            metrics={
                name: StoredMetric(unit=m.unit, direction=m.direction, secondary=m.secondary)
                for name, m in task.metrics.items()
            },
            first_signal=signal,
            untrained=untrained,
            stacking=stacking,
            versions={
                "optsmith": __version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
                "machine": f"{platform.machine()}, {platform.system()}",
            },
            created=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        )

    @classmethod
    def from_json(cls, data: Any, what: str) -> About:
        """Return what `to_json` wrote.

        Raises:
            StudyError: The data is damaged.
        """
        return read(cls, data, what)

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        data: dict[str, Any] = plain(self)
        return data

    def declared_metrics(self) -> dict[str, Metric]:
        """Return the metrics, by name."""
        return {
            name: Metric(name, None, m.unit, m.direction, m.secondary)
            for name, m in self.metrics.items()
        }


@dataclass(frozen=True, kw_only=True)
class Summary:
    """State of a search, stored at each decision of the searcher and at the end.

    Attributes:
        finished: Whether the search reached its end.
        compared: Recipes of the final evaluation; None before the end.
        seconds: Time spent, over all sessions.
        counts: Number of candidates by outcome.
        searcher: The searcher's own summary.
        log: The searcher's decisions, one line each.
        evaluated: Candidate and fidelity of each evaluation that was told, in order.
    """

    finished: bool
    compared: tuple[str, ...] | None
    seconds: float
    counts: Counts
    searcher: Mapping[str, Any]
    log: tuple[str, ...]
    evaluated: tuple[tuple[str, float], ...]
