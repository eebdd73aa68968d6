"""A study of evaluations alone: what was compared, kept row by row."""

from __future__ import annotations

import json
from dataclasses import asdict

from optsmith._errors import StudyError
from optsmith.evaluation import Evaluation
from optsmith.storage._store import Store
from optsmith.study._identity import check_signal, first_signal, stacking_of
from optsmith.study._study import final_key
from optsmith.task import Protocol, Task
from optsmith.training import Stacking

_EVALUATES = "evaluates"


class Shelf:
    """Where evaluations are kept, and found again.

    Args:
        store: A study's store; None keeps nothing.
    """

    def __init__(self, store: Store | None) -> None:
        self.store = store
        self._attrs = store.attrs if store else {}

    def begin(self, task: Task, protocol: Protocol, device: str) -> Stacking:
        """Write down what is evaluated, or check that it is the same as before.

        Returns which runs are trained together, which must not change on the way.

        Raises:
            StudyError: It is not, or the study is that of a search.
        """
        if self.store is None:
            return stacking_of(task, device)
        name = self.store.name
        if "settings" in self._attrs:
            raise StudyError(f"the study {name} is that of a search: give another --study")
        signal = first_signal(task, protocol, device)
        settings = {"task": task.name, "device": device, **asdict(protocol.final_stage)}
        about = json.loads(json.dumps(settings))
        before = self._attrs.get(_EVALUATES)
        if before is None:
            stacking = stacking_of(task, device)
            found = {"first_signal": signal, "stacking": asdict(stacking)}
            self.store.set_attr(_EVALUATES, about | found)
            return stacking
        for key, value in about.items():
            if before.get(key) != value:
                raise StudyError(
                    f"the study {name} was made with {key} {before.get(key)}, not {value}: give"
                    " what it was made with, or another --study"
                )
        check_signal(signal, before["first_signal"], name)
        return stacking_of(task, device, before)

    def known(self, recipe: str) -> Evaluation | None:
        """Return the evaluation of a recipe that was there from the start."""
        data = self._attrs.get(final_key(recipe))
        return None if data is None else Evaluation.from_json(data)

    def keep(self, evaluation: Evaluation) -> None:
        """Make an evaluation durable."""
        if self.store is not None:
            self.store.set_attr(final_key(evaluation.recipe), evaluation.to_json())
