"""The abstract base class of executors."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Literal, Self

Function = Callable[[Any, Any], Any]
"""The function that an executor runs: `function(context, job)`."""

Prepare = Callable[[Any], None]
"""A function called once in every worker process: `prepare(context)`."""

LONGEST = 500
"""Maximum number of characters of an error message."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The result of a job that failed.

    Attributes:
        reason: Whether the function raised an error, exceeded the time limit, or its process died.
        message: Description in one line.
        seconds: Total time of all attempts.
    """

    reason: Literal["timed_out", "died", "raised"]
    message: str
    seconds: float


class Executor(ABC):
    """Runs `function(context, job)` for every submitted job.

    Function and context are set once by `start`; a job is data that can be pickled. Jobs start in
    the order of submission and may finish in any order. Every job has exactly one result: the
    function's return value, or a `Lost` if it failed; an error in one job does not affect others.
    Torch uses one thread while a job runs, so results do not depend on the executor or the number
    of workers.

    An executor must be used by the thread that created it. It is a context manager.

    Attributes:
        workers: Number of jobs that run at the same time.
        time_limit: Maximum seconds per job; None for no limit.
    """

    workers: int
    time_limit: float | None = None

    @abstractmethod
    def start(self, function: Function, context: Any, prepare: Prepare | None = None) -> None:
        """Set the function and context of all jobs; called once, before the first `submit`.

        Args:
            function: Function of the context and a job.
            context: Object passed to every call, which must not modify it.
            prepare: Function of the context, called once in every worker process before its first
                job. Not called in this process.

        Raises:
            RuntimeError: The executor was already started, or is closed.
        """

    @abstractmethod
    def submit(self, key: Hashable, job: Any) -> None:
        """Append a job to the queue; `wait` returns its result with `key`.

        Raises:
            StudyError: The job, the function or the context cannot be sent to a worker.
            RuntimeError: The executor was not started, or is closed.
        """

    @abstractmethod
    def wait(self, timeout: float | None = None) -> list[tuple[Hashable, Any]]:
        """Block until a job has finished and return all new results, oldest first.

        Returns an empty list if no job is outstanding, or after `timeout` seconds.

        Raises:
            StudyError: No job can be run, for example because no worker can be started.
            RuntimeError: The executor is closed.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop all running jobs and free all resources; further calls have no effect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run(function: Function, context: Any, job: Any) -> Any:
    """Return the function's result, or a `Lost` if it raises an error."""
    begun = time.monotonic()
    try:
        return function(context, job)
    except (Exception, SystemExit) as error:  # also if a library calls sys.exit
        return Lost("raised", one_line(error), time.monotonic() - begun)


def one_line(error: BaseException) -> str:
    """Return an error as one line, such as `ValueError: message`."""
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except Exception:  # the __str__ of a user's exception may fail
        text = ""
    if len(text) > LONGEST:
        text = text[:LONGEST] + "…"
    return f"{name}: {text}" if text else name


def default_workers() -> int:
    """Return the number of CPU cores available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
