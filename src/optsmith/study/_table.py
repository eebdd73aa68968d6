"""Persists the evaluations of `optsmith.evaluate`, one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from optsmith._errors import StudyError
from optsmith._stored import read
from optsmith.evaluation import Evaluation, Status
from optsmith.rules import definitions, operators
from optsmith.storage import Store
from optsmith.study._attributes import SETTINGS
from optsmith.study._identity import check_signal, stacking_of
from optsmith.study._preflight import preflight
from optsmith.study._reading import final_evaluations, final_key
from optsmith.study._settings import check_definitions
from optsmith.task import Protocol, Task
from optsmith.training import Stacking

_EVALUATES = "evaluates"


@dataclass(frozen=True, kw_only=True)
class _Evaluates:
    """The attribute of a study of comparisons: what determines its evaluations."""

    settings: Mapping[str, Any]
    definitions: Mapping[str, str]
    first_signal: float
    stacking: Stacking


class TableRecorder:
    """Stores the rows of a comparison in a study of their own, and returns stored rows.

    Args:
        store: The study's store; None stores nothing.

    Raises:
        StudyError: The study is damaged.
    """

    def __init__(self, store: Store | None) -> None:
        self.store = store
        self._attrs = store.attrs if store else {}
        of = f"of the study {store.name} in {store.location}" if store else ""
        self._known = final_evaluations(self._attrs, of)
        found = self._attrs.get(_EVALUATES)
        what = f'the attribute "{_EVALUATES}" {of}'
        self._before = None if found is None else read(_Evaluates, found, what)

    def begin(self, task: Task, protocol: Protocol, device: str, stack: int | None) -> Stacking:
        """Check the task, then store the settings, or check that they are those of the study.

        Returns which runs are trained together, which is the same in all sessions of a study.

        Raises:
            StudyError: They differ, or the study is that of a search.
            TaskError: The task does not run, or cannot be trained.
        """
        if self.store is None:
            preflight(task, protocol, device)
            return stacking_of(task, device, stack)
        name = self.store.name
        if SETTINGS in self._attrs:
            raise StudyError(f"the study {name} is that of a search: give another --study")
        signal = preflight(task, protocol, device).first_signal
        settings = _settings(task, protocol, device, stack)
        before = self._before
        if before is None:
            found = _Evaluates(
                settings=settings,
                definitions=definitions(operators.values()),
                first_signal=signal,
                stacking=stacking_of(task, device, stack),
            )
            self.store.set_attr(_EVALUATES, asdict(found))
            return found.stacking
        for key, value in settings.items():
            if before.settings.get(key) != value:
                raise StudyError(
                    f"the study {name} was made with {key} {before.settings.get(key)}, not"
                    f" {value}: use that value, or give another --study"
                )
        check_definitions(definitions(operators.values()), before.definitions, name)
        check_signal(signal, before.first_signal, name)
        return before.stacking

    def known(self, recipe: str) -> Evaluation | None:
        """Return the evaluation of a recipe that was stored at the start; None without one."""
        return self._known.get(recipe)

    def keep(self, evaluation: Evaluation) -> None:
        """Store an evaluation, unless it failed: it is repeated, as the cause may be corrected."""
        if self.store is not None and evaluation.status not in (Status.FAILED, Status.LOST):
            self.store.set_attr(final_key(evaluation.recipe), evaluation.to_json())


def _settings(task: Task, protocol: Protocol, device: str, stack: int | None) -> dict[str, Any]:
    """Return the settings that determine an evaluation, as plain data."""
    stage = protocol.final_stage
    names = ("steps", "tune_steps", "seeds", "lrs", "lr_search", "early_stop", "extend_grid")
    found = {name: getattr(stage, name) for name in names}
    settings = {"task": task.name, "device": device, "stack": stack, **found}
    data: dict[str, Any] = json.loads(json.dumps(settings))
    return data
