"""The abstract base class of executors."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Literal, Self

from optsmith._failures import is_out_of_memory, one_line, traceback_text

Function = Callable[[Any, Any], Any]
"""The function that an executor runs: `function(context, job)`."""

Prepare = Callable[[Any], None]
"""A function called once in every worker process: `prepare(context)`."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The result of a job that failed.

    Attributes:
        reason: Whether the function raised an error or exceeded the time limit, or the machine
            failed: its process died, or there was not enough memory.
        message: Description in one line.
        seconds: Total time of all attempts.
        traceback: Traceback of the function's error.
    """

    reason: Literal["timed_out", "died", "out_of_memory", "raised"]
    message: str
    seconds: float
    traceback: str = ""

    @property
    def is_machine(self) -> bool:
        """Whether the machine failed, so that the same job may succeed another time."""
        return self.reason in ("died", "out_of_memory")


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

    def warm_up(self, function: Callable[[], object], timeout: float | None = None) -> bool:
        """Start workers before there are jobs for them; return whether all are ready.

        Args:
            function: Called in every worker process: imports what its jobs will need.
            timeout: Seconds to wait; None waits until they are ready.
        """
        return True

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
        seconds = time.monotonic() - begun
        if is_out_of_memory(error):
            return Lost("out_of_memory", one_line(error), seconds)
        return Lost("raised", one_line(error), seconds, traceback_text(error))


def default_workers() -> int:
    """Return the number of CPU cores available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
