"""Construction of an executor."""

from __future__ import annotations

from optsmith._errors import StudyError
from optsmith.execution._base import Executor
from optsmith.execution._in_process import InProcess
from optsmith.execution._processes import Processes


def make_executor(workers: int, time_limit: float | None = None) -> Executor:
    """Return an executor with `workers` worker processes, or an in-process executor for 0.

    Raises:
        StudyError: A setting is invalid.
    """
    if workers != 0:
        return Processes(workers, time_limit)
    if time_limit is not None:
        raise StudyError("a time limit needs at least 1 worker process")
    return InProcess()
