"""Selection of an executor from the user's settings."""

from __future__ import annotations

from optsmith._errors import StudyError
from optsmith.execution import Executor, default_workers, make_executor


def choose_executor(
    executor: Executor | None, workers: int | None, time_limit: float | None
) -> Executor:
    """Return the user's executor, or one with worker processes.

    Raises:
        StudyError: The settings are invalid, or both are given.
    """
    if executor is None:
        return make_executor(default_workers() if workers is None else workers, time_limit)
    if workers is not None or time_limit is not None:
        raise StudyError("an executor has its own workers and time limit: give them to it")
    return executor
