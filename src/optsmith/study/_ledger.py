"""Evaluations outside the search: each is stored when it is done, and never repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from optsmith._stored import damaged
from optsmith.evaluation import Evaluation, Status
from optsmith.execution import Executor, Lost
from optsmith.storage import Store
from optsmith.study._context import Job, lost_evaluation
from optsmith.study._guard import Guard
from optsmith.study._work import job_sizes

LEDGER = "evaluation:"
"""Prefix of the attributes that hold these evaluations."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One recipe to evaluate.

    Attributes:
        stage: Name of the stage.
        recipe: Text of the rule or baseline.
        fidelity: Share of the run's length.
        block: Block of seeds.
        lr: A fixed learning rate; None tunes it.
        around: A learning rate that was good in shorter runs.
    """

    stage: str
    recipe: str
    fidelity: float = 1.0
    block: int = 0
    lr: float | None = None
    around: float | None = None

    @property
    def key(self) -> str:
        """Name of the attribute; a hash, because databases limit the length of names."""
        return LEDGER + hashlib.blake2b(repr(self).encode(), digest_size=16).hexdigest()

    @property
    def alike(self) -> tuple[str, float, int]:
        """What entries must share to be evaluated as one job."""
        return self.stage, self.fidelity, self.block


class Ledger:
    """Evaluates entries, and stores each evaluation when it is done.

    Entries are evaluated in groups, which depend only on the list of entries: the rounding of a
    score may depend on its group. A group that is stored only in part is evaluated again as a
    whole. An evaluation that the machine lost is not stored, so that a resumed study does it again;
    an error is stored only once it is known to be the recipe's, and not the task's.

    Args:
        store: The store of the study.
        executor: Evaluates jobs.
        group: Maximum number of entries per job.
        observer: Called with the phase and each new evaluation.
        guard: Stops the study if the task or the machine fails.
        begun: Called with the phase and the jobs that are started; none if all is stored.

    Raises:
        StudyError: A stored evaluation is damaged.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        group: int,
        observer: Callable[[str, Evaluation], None],
        guard: Guard,
        begun: Callable[[str, Sequence[Sequence[Entry]]], None] | None = None,
    ) -> None:
        self._store, self._executor, self._group, self._observer = store, executor, group, observer
        self._guard, self._begun = guard, begun or (lambda phase, jobs: None)
        self._unstored: dict[str, Evaluation] = {}
        self._known = ledger_evaluations(store.attrs, f"of the study {store.name}")
        self.trained: dict[str, int] = {}

    def missing(self, entries: Iterable[Entry]) -> int:
        """Return the number of entries that are not stored yet."""
        return sum(entry.key not in self._known for entry in entries)

    def jobs(self, entries: Iterable[Entry]) -> list[list[Entry]]:
        """Return the jobs that evaluate those entries that are not stored yet."""
        return [job for job in self._groups(dict.fromkeys(entries)) if self.missing(job)]

    def evaluate(self, phase: str, entries: Sequence[Entry]) -> list[Evaluation]:
        """Return the evaluations of entries; those that are not stored are done now.

        Args:
            phase: What they are for; their training steps are counted by it.
            entries: The entries.
        """
        waiting: dict[Hashable, list[Entry]] = {}
        todo = self.jobs(entries)
        if entries:
            self._begun(phase, todo)
        while todo or waiting:
            for group in todo:
                waiting[group[0]] = group
                self._executor.submit(group[0], _job(group))
            todo = []
            for key, result in self._executor.wait():
                group = waiting.pop(key)
                if isinstance(result, Lost) and len(group) > 1:
                    todo += [[entry] for entry in group]
                else:
                    self._keep(phase, group, result)
        found = [self._known[entry.key] for entry in entries]
        self.trained[phase] = self.trained.get(phase, 0) + sum(e.trained for e in found)
        return found

    def _groups(self, entries: Iterable[Entry]) -> list[list[Entry]]:
        alike: dict[tuple[str, float, int], list[Entry]] = {}
        for entry in entries:
            alike.setdefault(entry.alike, []).append(entry)
        groups = []
        for every in alike.values():
            rest = iter(every)
            groups += [list(islice(rest, size)) for size in job_sizes(len(every), self._group)]
        return groups

    def _keep(self, phase: str, group: Sequence[Entry], result: Any) -> None:
        if isinstance(result, Lost):
            result = [lost_evaluation(entry.recipe, result) for entry in group]
        for entry, evaluation in zip(group, result, strict=True):
            if entry.key not in self._known:
                self._guard.check(evaluation)
                self._known[entry.key] = evaluation
                self._observer(phase, evaluation)
                if evaluation.status is not Status.LOST:
                    self._unstored[entry.key] = evaluation
        for key, evaluation in list(self._unstored.items()):
            if evaluation.status is not Status.FAILED or self._guard.blames_rule(evaluation):
                self._store.set_attr(key, evaluation.to_json())
                del self._unstored[key]


def _job(group: Sequence[Entry]) -> Job:
    first = group[0]
    return Job(
        first.stage,
        tuple(entry.recipe for entry in group),
        first.fidelity,
        first.block,
        tuple(entry.lr for entry in group),
        tuple(entry.around for entry in group),
    )


def ledger_evaluations(attrs: Mapping[str, Any], of: str) -> dict[str, Evaluation]:
    """Return the evaluations among the attributes of a study, by attribute.

    Raises:
        StudyError: One is damaged.
    """
    found = {}
    for key, data in attrs.items():
        if key.startswith(LEDGER):
            what = f'the attribute "{key}" {of}'
            if not isinstance(data, Mapping):
                raise damaged(what, "it is not an object")
            found[key] = Evaluation.from_json(data, what)
    return found
