"""The main program of a worker process: reads jobs from a socket, writes results to it.

The first message holds torch's settings, and the function with its context and how to prepare for
it; the answer is None, or why the worker cannot start. Every other message is a job; the answer is
its result or a `Lost`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from optsmith.execution._base import Lost, one_line, run

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve the socket whose descriptor is the first argument, until the other end closes."""
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
    # Blocked by the coordinator so far: ignored first, it cannot come through now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _die_with_the_coordinator() -> None:
    """Have the kernel kill us when the coordinator dies, should the reader not get its turn."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _read(connection: Connection[Any, Any], messages: SimpleQueue[bytes]) -> None:
    """Read in a thread, which notices a closed socket in the middle of a job too."""
    while True:
        try:
            messages.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)


def _serve(connection: Connection[Any, Any], messages: SimpleQueue[bytes]) -> None:
    try:
        import torch

        from optsmith.execution._shipping import pack, unpack
        from optsmith.execution._torch import apply_settings

        torch.set_num_threads(1)
        settings, packed = unpack(messages.get())
        apply_settings(settings)
        function, context, prepare = unpack(packed)
        if prepare is not None:
            prepare(context)
    except BaseException as error:
        import pickle  # torch may be what could not be imported

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
