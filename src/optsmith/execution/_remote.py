"""The coordinator's handle of one worker process."""

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

# Not `-m`, which would add the working directory to sys.path.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; del sys.argv[2:];"
    " from optsmith.execution._worker import main; main()"
)
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
# Otherwise glibc returns large blocks to the system after each step, which causes page faults in
# the next: see "memory kept" in benchmarks/results/convnet.txt.
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str((1 << 31) - 1)}
_TAIL = 4096
"""Bytes of the worker's output that are kept for error messages."""
_POLL = 1.0
"""Seconds between checks that the worker is alive."""


class DiedError(Exception):
    """The process ended before it answered; the message says how."""


class LateError(Exception):
    """The process did not answer in time."""


class Remote:
    """A worker process and the socket to it.

    It belongs to the process group of this process, so that signals to the group reach it. Its
    output is read, and only the end is kept. All methods except `kill` must be called by the same
    thread, which must live as long as the process: on Linux the process dies with the thread.

    Raises:
        StudyError: The system cannot start another process.
    """

    def __init__(self) -> None:
        try:
            self._start()
        except OSError as error:
            raise StudyError(f"cannot start a worker process: {error.strerror}") from None
        self._said = b""
        self._listening = True

    def _start(self) -> None:
        # Not stdin and stdout, where the output of other code would mix with the messages.
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
            raise AssertionError("Popen was asked for a pipe")
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
        """Block until the socket has data or is closed."""
        while True:
            sources: list[Any] = [self._socket, *([self._output] if self._listening else [])]
            begun = time.monotonic()
            ready: list[Any] = wait(sources, max(min(seconds, _POLL), 0.0))
            if self._output in ready:
                self._listen()
            if self._socket in ready:
                return
            # A child of the worker may keep the socket open after the worker's death, so the
            # process is polled as well.
            if not self.alive and not self._socket.poll():
                raise EOFError
            if seconds <= 0.0:
                raise LateError
            # Time during which all processes were stopped (Ctrl-Z) does not count.
            seconds -= min(time.monotonic() - begun, 2 * _POLL)

    def _listen(self) -> bool:
        """Read some of the output of the process and return whether there was any."""
        # Not all of it, because a process may never stop printing.
        try:
            said = os.read(self._output.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        self._said = (self._said + said)[-_TAIL:]
        self._listening = bool(said)
        return self._listening

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    @property
    def last_output(self) -> str:
        """The last lines of output before the process died, joined."""
        while self._listening and self._listen():
            pass
        lines = self._said.decode(errors="replace").splitlines()
        return " / ".join([line.strip() for line in lines if line.strip()][-3:])

    def kill(self) -> None:
        """Kill the process; may be called by any thread."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process and free its resources."""
        self.kill()
        self._process.wait()
        self._socket.close()
        self._output.close()

    def _ending(self) -> str:
        # The socket was closed because the process is about to end, or by a function that closes
        # all file descriptors.
        try:
            code = self._process.wait(_POLL)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was killed by signal {-code} ({signal.Signals(-code).name})"
        except ValueError:  # real-time signals have no names
            return f"was killed by signal {-code}"
