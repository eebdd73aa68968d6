"""Supervision of one worker process: started on demand, replaced when it dies."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

from optsmith._errors import StudyError
from optsmith._failures import one_line
from optsmith.execution._base import Lost
from optsmith.execution._remote import DiedError, LateError, Remote

ATTEMPTS = 2
"""Attempts per job if its worker dies; after two deaths the job is assumed to be the cause."""


class Supervisor:
    """Runs jobs sequentially on a worker process that it starts and replaces as needed.

    All methods except `stop` must be called by the same thread.

    Args:
        setup: Returns the first message to a worker; called when there is a job.
        time_limit: Maximum seconds per job, not counting the start of the worker; None for no
            limit.
    """

    def __init__(self, setup: Callable[[], bytes], time_limit: float | None) -> None:
        self._setup = setup
        self._time_limit = time_limit
        self._remote: Remote | None = None
        self._is_set_up = False
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, job: bytes) -> Any:
        """Return the result of a job, or a `Lost` if it failed.

        Raises:
            StudyError: No worker can be started, or the supervisor was stopped.
        """
        endings: list[str] = []
        seconds = 0.0
        while len(endings) < ATTEMPTS:
            remote = self._ready()
            begun = time.monotonic()
            try:
                answer = remote.ask(job, self._time_limit)
            except LateError:
                self.close()
                seconds += time.monotonic() - begun
                return Lost("timed_out", f"took longer than {self._time_limit:g} s", seconds)
            except DiedError as error:
                self.close()
                seconds += time.monotonic() - begun
                endings.append(str(error))
            else:
                return _read(answer, seconds + time.monotonic() - begun)
        first, second = endings
        message = f"{first}, twice" if first == second else f"{first}, and its replacement {second}"
        return Lost("died", f"its worker process {message}", seconds)

    def warm_up(self, function: bytes) -> None:
        """Start the worker, and let it call a function.

        Raises:
            StudyError: It cannot be started, or the supervisor was stopped.
        """
        self._tell(self._start(), function)

    def _ready(self) -> Remote:
        remote = self._remote
        if remote is None or not remote.alive:
            remote = self._start()
        if not self._is_set_up:
            self._tell(remote, self._setup())
            self._is_set_up = True
        return remote

    def _start(self) -> Remote:
        self.close()  # a worker's death while idle does not count against a job
        with self._lock:
            if self._stopped:
                raise StudyError("the executor is closed")
            self._remote = remote = Remote()
        self._is_set_up = False
        return remote

    def _tell(self, remote: Remote, message: bytes) -> None:
        """Send a message that is not a job; the answer is None, or why the worker cannot start."""
        try:
            reason = pickle.loads(remote.ask(message))  # noqa: S301 (from our own worker)
        except DiedError as error:
            printed = remote.last_output
            reason = f"it {error}" + (f' after printing "{printed}"' if printed else "")
        if reason is not None:
            raise StudyError(f"a worker process cannot start: {reason}")

    def stop(self) -> None:
        """Stop the running job and start no other; may be called by any thread."""
        with self._lock:
            self._stopped = True
            if self._remote is not None:
                self._remote.kill()

    def close(self) -> None:
        """Stop the worker, if there is one; the next job starts another."""
        with self._lock:
            if self._remote is not None:
                self._remote.close()
            self._remote = None


def _read(answer: bytes, seconds: float) -> Any:
    try:
        return pickle.loads(answer)  # noqa: S301 (from our own worker)
    except Exception as error:
        return Lost("raised", f"the result cannot be unpickled: {one_line(error)}", seconds)
