"""Plans: what an evaluation wants trained, step by step, and several of them side by side.

A plan is a generator. It yields the runs that it wants trained next, gets their traces, and in the
end returns a result. So an evaluation reads from top to bottom, and those of several rules can be
under way together, with what they want at the same time trained together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from optsmith.task import Run
from optsmith.training._plain import Trace
from optsmith.training._stopping import Stopping

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Runs that a plan wants trained.

    Attributes:
        runs: The runs.
        stopping: What ends them early.
    """

    runs: tuple[Run, ...]
    stopping: Stopping


Plan = Generator[Wanted, list[Trace], T]

Train = Callable[[Sequence[Run], Stopping], list[Trace]]
"""Returns the trace of each run."""


@dataclass(slots=True)
class Progress(Generic[T]):
    """A plan under way.

    Attributes:
        plan: The plan.
        wanted: What it wants trained; None before it begins and when it has ended.
        result: What it returned, or the exception that ended it.
        trained: Steps trained for it.
        seconds: Time spent on it; its share of what was trained together with others.
    """

    plan: Plan[T]
    wanted: Wanted | None = None
    result: T | Exception | None = None
    trained: int = 0
    seconds: float = 0.0

    def begin(self) -> None:
        """Go on to what the plan wants first."""
        self._go_on(lambda: next(self.plan))

    def receive(self, traces: list[Trace]) -> None:
        """Hand the plan what it wanted, and go on to what it wants next."""
        self.trained += sum(trace.signal[-1][0] for trace in traces if trace.signal)
        self._go_on(lambda: self.plan.send(traces))

    def fail(self, error: Exception) -> None:
        """End the plan: what it wanted cannot be trained."""
        self._go_on(lambda: self.plan.throw(error))

    def _go_on(self, move: Callable[[], Wanted]) -> None:
        start = time.perf_counter()
        self.wanted = None
        try:
            self.wanted = move()
        except StopIteration as end:
            self.result = end.value
        except Exception as error:  # whatever a task or an operator may raise
            self.result = error
        self.seconds += time.perf_counter() - start


def side_by_side(plans: Sequence[Plan[T]], train: Train) -> list[Progress[T]]:
    """Carry out plans; what several want at the same time is trained together."""
    every = [Progress(plan) for plan in plans]
    for progress in every:
        progress.begin()
    while going := [progress for progress in every if progress.wanted]:
        by_stopping: dict[Stopping, list[Progress[T]]] = {}
        for progress in going:
            if progress.wanted:
                by_stopping.setdefault(progress.wanted.stopping, []).append(progress)
        for stopping, together in by_stopping.items():
            _train(together, stopping, train)
    return every


def _train(together: Sequence[Progress[T]], stopping: Stopping, train: Train) -> None:
    """Train what plans want, and hand it to them; one that fails alone fails alone."""
    wanted = [progress.wanted.runs if progress.wanted else () for progress in together]
    start = time.perf_counter()
    try:
        traces = iter(train([run for runs in wanted for run in runs], stopping))
    except Exception as error:
        if len(together) == 1:
            together[0].seconds += time.perf_counter() - start
            together[0].fail(error)
            return
        for progress in together:
            _train([progress], stopping, train)
        return
    elapsed = time.perf_counter() - start
    parts = [[next(traces) for _ in runs] for runs in wanted]
    spent = [sum(trace.seconds for trace in part) for part in parts]
    for progress, part, seconds in zip(together, parts, spent, strict=True):
        progress.seconds += elapsed * (seconds / sum(spent) if any(spent) else 1 / len(together))
        progress.receive(part)
