"""The executor without worker processes, for debuggers, coverage and printing."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

from optsmith.execution._base import Executor, Function, Prepare, run


class InProcess(Executor):
    """Runs jobs in the calling thread, one per call of `wait`, which ignores its timeout.

    A time limit is not supported, because it cannot be enforced.
    """

    workers = 1

    def __init__(self) -> None:
        self._work: tuple[Function, Any] | None = None
        self._jobs: deque[tuple[Hashable, Any]] = deque()
        self._closed = False

    def start(self, function: Function, context: Any, prepare: Prepare | None = None) -> None:
        self._check_open()
        if self._work is not None:
            raise RuntimeError("the executor was already started")
        self._work = function, context

    def submit(self, key: Hashable, job: Any) -> None:
        self._check_open()
        if self._work is None:
            raise RuntimeError("the executor was not started")
        self._jobs.append((key, job))

    def wait(self, timeout: float | None = None) -> list[tuple[Hashable, Any]]:
        self._check_open()
        if not self._jobs or self._work is None:
            return []
        from optsmith._threads import one_thread

        key, job = self._jobs.popleft()
        with one_thread():
            return [(key, run(*self._work, job))]

    def close(self) -> None:
        self._closed = True
        self._jobs.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the executor is closed")
