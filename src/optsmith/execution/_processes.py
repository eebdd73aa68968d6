"""The executor with worker processes on this machine."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from collections.abc import Callable, Hashable
from queue import Empty, SimpleQueue
from typing import Any

from optsmith._errors import StudyError
from optsmith._failures import one_line
from optsmith.execution._base import Executor, Function, Prepare
from optsmith.execution._shared_files import SharedFiles
from optsmith.execution._supervisor import Supervisor


class Processes(Executor):
    """Runs jobs in worker processes, each with one torch thread; on Linux and macOS.

    A worker is a new Python interpreter that does not import the main program: scripts need no
    main guard, and functions defined in notebooks work. It has the `sys.path`, working directory
    and torch settings of this process; seeding is left to the function. The context is sent to each
    worker once, with large tensors and arrays as files that all workers map. Workers are started
    when there are jobs for them, or by `warm_up`, and end with this process, even if it is killed.

    A job that exceeds the time limit is stopped together with its worker. A worker that dies is
    replaced, and its job is retried once.

    Args:
        workers: Number of worker processes.
        time_limit: Maximum seconds per job, not counting the start of its worker.

    Raises:
        StudyError: A setting is invalid, or worker processes are not supported on this system.
    """

    def __init__(self, workers: int, time_limit: float | None = None) -> None:
        if workers < 1:
            raise StudyError(f"there must be at least 1 worker process, not {workers}")
        if time_limit is not None and not time_limit > 0:
            raise StudyError(f"the time limit must be more than 0 seconds, not {time_limit:g}")
        if os.name != "posix":
            raise StudyError("worker processes need Linux or macOS; use 0 workers")
        self.workers = workers
        self.time_limit = time_limit
        self._work: tuple[Function, Any, Prepare | None] | None = None
        self._setup: bytes | None = None
        self._shared = SharedFiles()
        self._jobs: SimpleQueue[tuple[Hashable, bytes] | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[Hashable, Any] | Exception] = SimpleQueue()
        self._supervisors: list[tuple[Supervisor, threading.Thread]] = []
        self._warm: list[threading.Event] = []
        self._outstanding = 0
        self._failure: Exception | None = None
        self._closed = False
        self._owner = os.getpid()
        atexit.register(self.close)

    def warm_up(self, function: Callable[[], object], timeout: float | None = None) -> bool:
        from optsmith.execution._serialization import pack

        self._check()
        packed = pack(function)
        while len(self._supervisors) < self.workers:
            self._add_supervisor(packed)
        end = None if timeout is None else time.monotonic() + timeout
        for event in self._warm:
            event.wait(None if end is None else max(0.0, end - time.monotonic()))
        return all(event.is_set() for event in self._warm)

    def start(self, function: Function, context: Any, prepare: Prepare | None = None) -> None:
        self._check()
        if self._work is not None:
            raise RuntimeError("the executor was already started")
        self._work = function, context, prepare

    def submit(self, key: Hashable, job: Any) -> None:
        from optsmith.execution._serialization import pack

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
        if len(self._supervisors) < min(self.workers, self._outstanding):
            self._add_supervisor()

    def wait(self, timeout: float | None = None) -> list[tuple[Hashable, Any]]:
        self._check()
        finished: list[tuple[Hashable, Any]] = []
        try:
            while self._outstanding:
                # Block for the first result, then take those that are ready.
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
        if (
            os.getpid() != self._owner
        ):  # a fork of this process, which does not own the workers and files
            return
        self._closed = True
        for supervisor, _ in self._supervisors:
            self._jobs.put(None)
            supervisor.stop()
        for _, thread in self._supervisors:
            thread.join()
        self._supervisors.clear()
        self._shared.remove()
        atexit.unregister(self.close)

    def _check(self) -> None:
        if self._closed:
            raise RuntimeError("the executor is closed")
        if self._failure is not None:
            raise self._failure

    def _pack_setup(self) -> bytes:
        from optsmith.execution._serialization import pack
        from optsmith.execution._torch import current_settings

        try:
            return pack((current_settings(), pack(self._work, self._shared)))
        except StudyError:
            raise
        except Exception as error:
            raise StudyError(
                "the task, or an object it uses, cannot be sent to worker processes"
                f" ({one_line(error)}); use 0 workers"
            ) from error

    def _add_supervisor(self, function: bytes | None = None) -> None:
        supervisor, warm = Supervisor(self._packed_setup, self.time_limit), threading.Event()
        # Daemon threads, because at exit Python joins other threads before it calls `close`.
        args = (supervisor, function, warm)
        thread = threading.Thread(target=self._serve, args=args, daemon=True)
        self._supervisors.append((supervisor, thread))
        self._warm.append(warm)
        thread.start()

    def _packed_setup(self) -> bytes:
        assert self._setup is not None  # noqa: S101 - it is packed before the first job
        return self._setup

    def _serve(self, supervisor: Supervisor, function: bytes | None, warm: threading.Event) -> None:
        """Run jobs in a thread, so that workers continue while the main thread is busy."""
        # Inherited by workers: Ctrl-C cannot stop them before they ignore the signal.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            if function is not None:
                supervisor.warm_up(function)
            warm.set()
            while (item := self._jobs.get()) is not None:
                key, job = item
                self._results.put((key, supervisor.run(job)))
        except Exception as error:
            self._results.put(error)
        finally:
            warm.set()  # an error is raised by `wait`
            supervisor.close()
