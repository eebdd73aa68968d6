"""The contract of executors."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Literal, Self

Function = Callable[[Any, Any], Any]
"""What an executor runs: `function(context, job)`."""

Prepare = Callable[[Any], None]
"""What an executor calls once in every process that it starts: `prepare(context)`."""

LONGEST = 500
"""Characters of an error's text that are kept."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A job that came to nothing, in place of its result.

    Attributes:
        reason: The function raised, took longer than the time limit, or its process died.
        message: What happened, in one line.
        seconds: Time spent on it, all attempts together.
    """

    reason: Literal["timed_out", "died", "raised"]
    message: str
    seconds: float


class Executor(ABC):
    """Runs `function(context, job)` for every job that is submitted.

    Function and context are given once, by `start`; a job is plain data that can be pickled. Jobs
    start in the order of submission and may finish in any other. Every job has exactly one result:
    the function's return value, or a `Lost` when there is none; a function that raises does not
    disturb other jobs. Torch has one thread while a job runs, so results do not depend on the
    executor or the number of its workers.

    An executor belongs to the thread that made it. It is a context manager that closes itself.

    Attributes:
        workers: Jobs that run at the same time.
        time_limit: Seconds that a job may take; None: no limit.
    """

    workers: int
    time_limit: float | None = None

    @abstractmethod
    def start(self, function: Function, context: Any, prepare: Prepare | None = None) -> None:
        """Say what jobs are; called once, before the first job is submitted.

        Args:
            function: Called with the context and a job.
            context: Read-only; passed to every call.
            prepare: Called with the context, once in every process that the executor starts, before
                its first job. Not called in this process.

        Raises:
            RuntimeError: The executor was started before, or is closed.
        """

    @abstractmethod
    def submit(self, key: Hashable, job: Any) -> None:
        """Put a job last in the queue; `wait` returns its result with `key`.

        Raises:
            StudyError: The job, or what jobs need, cannot be sent to a worker.
            RuntimeError: The executor was not started, or is closed.
        """

    @abstractmethod
    def wait(self, timeout: float | None = None) -> list[tuple[Hashable, Any]]:
        """Block until a job has finished and return all results not returned yet, oldest first.

        Returns an empty list at once when no job is outstanding, or when `timeout` seconds pass.

        Raises:
            StudyError: Jobs cannot be run at all, as when no worker can be started.
            RuntimeError: The executor is closed.
        """

    @abstractmethod
    def close(self) -> None:
        """End all running work and free everything; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run(function: Function, context: Any, job: Any) -> Any:
    """Return the function's result, or a `Lost` when it raises."""
    begun = time.monotonic()
    try:
        return function(context, job)
    except (Exception, SystemExit) as error:  # a library that exits must not end the search
        return Lost("raised", one_line(error), time.monotonic() - begun)


def one_line(error: BaseException) -> str:
    """Return an error as a line of text, `ValueError: what it said`."""
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except Exception:  # a user's exception may fail at this too
        text = ""
    if len(text) > LONGEST:
        text = text[:LONGEST] + "…"
    return f"{name}: {text}" if text else name


def default_workers() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
