"""Persists the evaluations of `optsmith.evaluate`, one by one."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from optsmith._errors import StudyError
from optsmith.evaluation import Evaluation
from optsmith.rules import definitions, operators
from optsmith.storage import Store
from optsmith.study._identity import check_signal, first_signal, stacking_of
from optsmith.study._settings import check_definitions
from optsmith.study._study import final_key
from optsmith.task import Protocol, Task
from optsmith.training import Stacking

_EVALUATES = "evaluates"


class TableRecorder:
    """Keeps the rows of a comparison in a study of their own, and finds them again.

    Args:
        store: The study's store; None keeps nothing.
    """

    def __init__(self, store: Store | None) -> None:
        self.store = store
        self._attrs = store.attrs if store else {}

    def begin(self, task: Task, protocol: Protocol, device: str, stack: int | None) -> Stacking:
        """Write down what is evaluated, or check that it is the same as before.

        Returns which runs are trained together, which must not change on the way.

        Raises:
            StudyError: It is not, or the study is that of a search.
        """
        if self.store is None:
            return stacking_of(task, device, stack)
        name = self.store.name
        if "settings" in self._attrs:
            raise StudyError(f"the study {name} is that of a search: give another --study")
        signal = first_signal(task, protocol, device)
        settings = _settings(task, protocol, device, stack)
        before = self._attrs.get(_EVALUATES)
        if before is None:
            stacking = stacking_of(task, device, stack)
            found = {
                "settings": settings,
                "definitions": definitions(operators.values()),
                "first_signal": signal,
                "stacking": asdict(stacking),
            }
            self.store.set_attr(_EVALUATES, found)
            return stacking
        for key, value in settings.items():
            if before["settings"].get(key) != value:
                raise StudyError(
                    f"the study {name} was made with {key} {before['settings'].get(key)}, not"
                    f" {value}: give what it was made with, or another --study"
                )
        check_definitions(definitions(operators.values()), before["definitions"], name)
        check_signal(signal, before["first_signal"], name)
        return stacking_of(task, device, stack, before)

    def known(self, recipe: str) -> Evaluation | None:
        """Return the evaluation of a recipe that was there from the start."""
        data = self._attrs.get(final_key(recipe))
        return None if data is None else Evaluation.from_json(data)

    def keep(self, evaluation: Evaluation) -> None:
        """Make an evaluation durable."""
        if self.store is not None:
            self.store.set_attr(final_key(evaluation.recipe), evaluation.to_json())


def _settings(task: Task, protocol: Protocol, device: str, stack: int | None) -> dict[str, Any]:
    """Return what decides an evaluation, as JSON has it."""
    stage = protocol.final_stage
    names = ("steps", "tune_steps", "seeds", "lrs", "lr_search", "early_stop", "extend_grid")
    found = {name: getattr(stage, name) for name in names}
    settings = {"task": task.name, "device": device, "stack": stack, **found}
    data: dict[str, Any] = json.loads(json.dumps(settings))
    return data
