"""How evaluations get their training done: they request runs and receive traces.

An evaluation is a generator. It yields the runs that it wants trained next, receives their traces,
and returns its result. So it reads from top to bottom, and several evaluations can progress
together, with the runs that they request at the same time trained as one stack.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from optsmith.task import Run
from optsmith.training import Stopping, Trace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """Runs to be trained.

    Attributes:
        runs: The runs.
        stopping: The criteria that end them early.
    """

    runs: tuple[Run, ...]
    stopping: Stopping


Requests = Generator[Request, list[Trace], T]
"""A computation that yields requests, receives their traces and returns a T."""

Train = Callable[[Sequence[Run], Stopping], list[Trace]]
"""Returns the trace of each run."""


@dataclass(slots=True)
class Served(Generic[T]):
    """One computation while its requests are served.

    Attributes:
        requests: The computation.
        pending: The request that has not been served yet; None before the start and after the end.
        result: Its return value, or the exception that ended it.
        trained: Steps trained for it.
        seconds: Time spent on it, including its share of training with others.
    """

    requests: Requests[T]
    pending: Request | None = None
    result: T | Exception | None = None
    trained: int = 0
    seconds: float = 0.0

    def start(self) -> None:
        """Advance to the first request."""
        self._advance(lambda: next(self.requests))

    def receive(self, traces: list[Trace]) -> None:
        """Hand over the traces of the pending request and advance to the next one."""
        self.trained += sum(trace.signal[-1][0] for trace in traces if trace.signal)
        self._advance(lambda: self.requests.send(traces))

    def fail(self, error: Exception) -> None:
        """Raise an error of the pending request inside the computation."""
        self._advance(lambda: self.requests.throw(error))

    def _advance(self, move: Callable[[], Request]) -> None:
        start = time.perf_counter()
        self.pending = None
        try:
            self.pending = move()
        except StopIteration as end:
            self.result = end.value
        except Exception as error:  # tasks and operators may raise anything
            self.result = error
        self.seconds += time.perf_counter() - start


def serve(computations: Sequence[Requests[T]], train: Train) -> list[Served[T]]:
    """Run computations to their end; what several request at the same time is trained together."""
    every = [Served(requests) for requests in computations]
    for served in every:
        served.start()
    while any(served.pending for served in every):
        by_stopping: dict[Stopping, list[Served[T]]] = {}
        for served in every:
            if served.pending:
                by_stopping.setdefault(served.pending.stopping, []).append(served)
        for stopping, together in by_stopping.items():
            _train(together, stopping, train)
    return every


def _train(together: Sequence[Served[T]], stopping: Stopping, train: Train) -> None:
    """Train the pending requests; an error is attributed by training them one by one."""
    wanted = [served.pending.runs if served.pending else () for served in together]
    start = time.perf_counter()
    try:
        traces = iter(train([run for runs in wanted for run in runs], stopping))
    except Exception as error:
        if len(together) == 1:
            together[0].seconds += time.perf_counter() - start
            together[0].fail(error)
            return
        for served in together:
            _train([served], stopping, train)
        return
    elapsed = time.perf_counter() - start
    parts = [[next(traces) for _ in runs] for runs in wanted]
    spent = [sum(trace.seconds for trace in part) for part in parts]
    for served, part, seconds in zip(together, parts, spent, strict=True):
        served.seconds += elapsed * (seconds / sum(spent) if any(spent) else 1 / len(together))
        served.receive(part)
