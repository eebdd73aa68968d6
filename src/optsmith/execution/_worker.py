"""The main program of a worker process, which reads jobs from a socket and writes results to it.

The first message contains torch's settings, the function, its context and the prepare function; the
answer is None, or why the worker cannot start. Before it there may be functions, which are called
while the rest is not known yet. Every other message is a job; the answer is its result or a `Lost`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from optsmith._failures import one_line
from optsmith.execution._base import Lost, run

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve the socket given as the first argument until the other end closes it."""
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    connection: Connection[Any, Any] = Connection(descriptor)
    _leave_interrupts_to_the_coordinator()
    _die_with_the_coordinator()
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read, args=(connection, messages), daemon=True).start()
    _serve(connection, messages)


def _leave_interrupts_to_the_coordinator() -> None:
    """Ignore Ctrl-C, which the terminal sends to the whole process group."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The coordinator blocked it; a pending signal is now ignored.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _die_with_the_coordinator() -> None:
    """Let the kernel kill this process when the coordinator dies, even if the reader is blocked."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _read(connection: Connection[Any, Any], messages: SimpleQueue[bytes]) -> None:
    """Read messages in a thread, which also detects a closed socket during a job."""
    while True:
        try:
            messages.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)


def _serve(connection: Connection[Any, Any], messages: SimpleQueue[bytes]) -> None:
    try:
        import torch

        from optsmith.execution._serialization import pack, unpack
        from optsmith.execution._torch import apply_settings

        torch.set_num_threads(1)
        while callable(first := unpack(messages.get())):
            first()
            connection.send_bytes(pack(None))
        settings, packed = first
        apply_settings(settings)
        function, context, prepare = unpack(packed)
        if prepare is not None:
            prepare(context)
    except BaseException as error:
        import pickle  # torch may have failed to import

        connection.send_bytes(pickle.dumps(one_line(error)))
        sys.exit(1)
    connection.send_bytes(pack(None))
    while True:
        message = messages.get()
        try:
            job = unpack(message)
        except Exception as error:
            result: Any = Lost("raised", f"the job cannot be unpickled: {one_line(error)}", 0.0)
        else:
            result = run(function, context, job)
        try:
            answer = pack(result)
        except Exception as error:
            answer = pack(Lost("raised", f"the result cannot be pickled: {one_line(error)}", 0.0))
        connection.send_bytes(answer)
