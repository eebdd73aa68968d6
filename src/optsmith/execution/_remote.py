"""One worker process, seen from the coordinator."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import wait
from typing import Any

from optsmith._errors import StudyError

# Not `-m`: that would search the working directory first, which the coordinator may not do.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; del sys.argv[2:];"
    " from optsmith.execution._worker import main; main()"
)
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
# Otherwise glibc gives the large blocks of a step back to the system, and each page of them costs
# a fault at the next: "memory kept" in benchmarks/results/convnet.txt.
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str((1 << 31) - 1)}
_TAIL = 4096
"""Bytes of its output that are kept."""
_LOOK = 1.0
"""Seconds between looks at whether it lives."""


class DiedError(Exception):
    """The process ended before it answered; the text says how."""


class LateError(Exception):
    """The process did not answer in time."""


class Remote:
    """A worker process and the socket to it.

    It shares our process group, so that what ends the group ends it too. Whatever it prints is read
    and forgotten but for the end. All methods but `kill` belong to one thread, which must live as
    long as the process: on Linux the process dies with it.

    Raises:
        StudyError: The system refuses to start another process.
    """

    def __init__(self) -> None:
        try:
            self._start()
        except OSError as error:
            raise StudyError(f"cannot start a worker process: {error.strerror}") from None
        self._said = b""
        self._listening = True

    def _start(self) -> None:
        # Neither stdin nor stdout: what other code prints must not get between our messages.
        self._socket, theirs = multiprocessing.Pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), *map(str, sys.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                pass_fds=[theirs.fileno()],
                env=_MEMORY | dict(os.environ) | dict.fromkeys(_THREADS, "1"),
            )
        except OSError:
            self._socket.close()
            raise
        finally:
            theirs.close()
        output = self._process.stdout
        if output is None:
            raise AssertionError("asked for a pipe")
        self._output = output
        os.set_blocking(output.fileno(), False)

    def ask(self, message: bytes, time_limit: float | None = None) -> bytes:
        """Send a message and return the answer.

        Raises:
            DiedError: The process ended first.
            LateError: `time_limit` seconds passed.
        """
        try:
            self._socket.send_bytes(message)
            self._await(math.inf if time_limit is None else time_limit)
            return self._socket.recv_bytes()
        except (EOFError, OSError):
            raise DiedError(self._ending()) from None

    def _await(self, seconds: float) -> None:
        """Block until there is something to read from the socket, be it its end."""
        while True:
            sources: list[Any] = [self._socket, *([self._output] if self._listening else [])]
            begun = time.monotonic()
            ready: list[Any] = wait(sources, max(min(seconds, _LOOK), 0.0))
            if self._output in ready:
                self._listen()
            if self._socket in ready:
                return
            # A child of the worker may hold the socket open after the worker's death, so the end of
            # the stream is no sure sign of it; hence a look now and then.
            if not self.alive and not self._socket.poll():
                raise EOFError
            if seconds <= 0.0:
                raise LateError
            # Time in which all of us were stopped (Ctrl-Z) is not the job's.
            seconds -= min(time.monotonic() - begun, 2 * _LOOK)

    def _listen(self) -> bool:
        """Read some of what the process has printed; return whether there was any."""
        # Not all of it at once: a process that never stops printing must not keep us here.
        try:
            said = os.read(self._output.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        self._said = (self._said + said)[-_TAIL:]
        self._listening = bool(said)
        return self._listening

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    @property
    def last_words(self) -> str:
        """The last lines that it printed before it died, as one."""
        while self._listening and self._listen():
            pass
        lines = self._said.decode(errors="replace").splitlines()
        return " / ".join([line.strip() for line in lines if line.strip()][-3:])

    def kill(self) -> None:
        """End the process, from any thread."""
        self._process.kill()

    def close(self) -> None:
        """End the process and free what it held."""
        self.kill()
        self._process.wait()
        self._socket.close()
        self._output.close()

    def _ending(self) -> str:
        # The socket may have been closed by what is now about to end, or by a function that closes
        # every descriptor; then nothing more can come from it.
        try:
            code = self._process.wait(_LOOK)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was killed by signal {-code} ({signal.Signals(-code).name})"
        except ValueError:  # real-time signals have no names
            return f"was killed by signal {-code}"
