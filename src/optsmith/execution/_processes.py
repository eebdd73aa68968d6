"""The executor with local worker processes."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Hashable
from queue import Empty, SimpleQueue
from typing import Any

from optsmith._errors import StudyError
from optsmith.execution._base import Executor, Function, Prepare, one_line
from optsmith.execution._seat import Seat
from optsmith.execution._shelf import Shelf


class Processes(Executor):
    """Runs jobs in worker processes, each with one torch thread; on Linux and macOS.

    A worker is a new Python that imports nothing of the main program: scripts need no main guard,
    and functions of notebooks work. It has our `sys.path`, working directory and torch settings;
    what is random in it is the function's business. The context reaches each worker once, its large
    tensors and arrays as files that all workers map. Workers start when there are jobs for them,
    and end when we do, however we end.

    A job that takes longer than the time limit is ended with its worker. A worker that dies is
    replaced; its job is tried once more.

    Args:
        workers: Processes.
        time_limit: Seconds that a job may take, without the start of its worker.

    Raises:
        StudyError: The settings make no sense, or there are no worker processes on this system.
    """

    def __init__(self, workers: int, time_limit: float | None = None) -> None:
        if workers < 1:
            raise StudyError(f"there must be at least 1 worker process, not {workers}")
        if time_limit is not None and not time_limit > 0:
            raise StudyError(f"the time limit must be more than 0 seconds, not {time_limit:g}")
        if os.name != "posix":
            raise StudyError("worker processes need Linux or macOS; evaluate with 0 workers")
        self.workers = workers
        self.time_limit = time_limit
        self._work: tuple[Function, Any, Prepare | None] | None = None
        self._setup: bytes | None = None
        self._shelf = Shelf()
        self._jobs: SimpleQueue[tuple[Hashable, bytes] | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[Hashable, Any] | Exception] = SimpleQueue()
        self._seats: list[tuple[Seat, threading.Thread]] = []
        self._outstanding = 0
        self._failure: Exception | None = None
        self._closed = False
        self._owner = os.getpid()
        atexit.register(self.close)

    def start(self, function: Function, context: Any, prepare: Prepare | None = None) -> None:
        self._check()
        if self._work is not None:
            raise RuntimeError("the executor was started before")
        self._work = function, context, prepare

    def submit(self, key: Hashable, job: Any) -> None:
        from optsmith.execution._shipping import pack

        self._check()
        if self._work is None:
            raise RuntimeError("the executor was not started")
        if self._setup is None:
            self._setup = self._pack_setup()
        try:
            packed = pack(job)
        except Exception as error:
            raise StudyError(f"a job cannot be pickled: {one_line(error)}") from error
        self._jobs.put((key, packed))
        self._outstanding += 1
        if len(self._seats) < min(self.workers, self._outstanding):
            self._add_seat(self._setup)

    def wait(self, timeout: float | None = None) -> list[tuple[Hashable, Any]]:
        self._check()
        finished: list[tuple[Hashable, Any]] = []
        try:
            while self._outstanding:
                # Block for the first, then take what else is there.
                block = not finished
                item = self._results.get(block, timeout if block else None)
                if isinstance(item, Exception):
                    self._failure = item
                    break
                finished.append(item)
                self._outstanding -= 1
        except Empty:
            pass
        if not finished:
            self._check()
        return finished

    def close(self) -> None:
        if os.getpid() != self._owner:  # a fork of us: neither workers nor files are its own
            return
        self._closed = True
        for seat, _ in self._seats:
            self._jobs.put(None)
            seat.stop()
        for _, thread in self._seats:
            thread.join()
        self._seats.clear()
        self._shelf.remove()
        atexit.unregister(self.close)

    def _check(self) -> None:
        if self._closed:
            raise RuntimeError("the executor is closed")
        if self._failure is not None:
            raise self._failure

    def _pack_setup(self) -> bytes:
        from optsmith.execution._shipping import pack
        from optsmith.execution._torch import current_settings

        try:
            return pack((current_settings(), pack(self._work, self._shelf)))
        except StudyError:
            raise
        except Exception as error:
            raise StudyError(
                "the task, or something it uses, cannot be sent to worker processes"
                f" ({one_line(error)}); evaluate without them (0 workers)"
            ) from error

    def _add_seat(self, setup: bytes) -> None:
        seat = Seat(setup, self.time_limit)
        # Daemons, because an exit waits for other threads before it calls `close`.
        thread = threading.Thread(target=self._serve, args=(seat,), daemon=True)
        self._seats.append((seat, thread))
        thread.start()

    def _serve(self, seat: Seat) -> None:
        """Do jobs in a thread, so that workers go on while the coordinator is busy elsewhere."""
        # Workers inherit this: Ctrl-C cannot hit them before they have learned to ignore it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            while (item := self._jobs.get()) is not None:
                key, job = item
                self._results.put((key, seat.run(job)))
        except Exception as error:
            self._results.put(error)
        finally:
            seat.close()
