"""Exceptions as text, and which of them are failures of the machine."""

from __future__ import annotations

import traceback
from pathlib import Path

LONGEST_LINE = 500
"""Maximum number of characters of an error message."""

LONGEST_TRACEBACK = 4000
"""Maximum number of characters of a traceback; the beginning of a longer one is cut."""

_PACKAGE = str(Path(__file__).parent)
_WATCH = str(Path(__file__).parent / "study" / "_watch.py")
"""Calls the operations of the user's code while a task is checked."""

_NO_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "cublas_status_alloc_failed",
)
"""Parts of torch's messages; without a GPU, torch raises an ordinary RuntimeError."""


def one_line(error: BaseException) -> str:
    """Return an error as one line, such as `ValueError: message`."""
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except Exception:  # the __str__ of a user's exception may fail
        text = ""
    if len(text) > LONGEST_LINE:
        text = text[:LONGEST_LINE] + "…"
    return f"{name}: {text}" if text else name


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that there is not enough memory."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if not isinstance(error, RuntimeError | OSError):
        return False
    text = one_line(error).lower()
    return any(part in text for part in _NO_MEMORY)


def traceback_text(error: BaseException) -> str:
    """Return the traceback of an error, without the frames of Optsmith that lead to it.

    So it starts in the user's code, or in that of a library that Optsmith calls.
    """
    found = traceback.TracebackException.from_exception(error, compact=True)
    every: list[traceback.TracebackException | None] = [found]
    while every:
        one = every.pop()
        if one is not None:
            _cut(one.stack)
            every += [one.__cause__, one.__context__, *(one.exceptions or ())]
    text = "".join(found.format()).rstrip()
    if len(text) > LONGEST_TRACEBACK:
        text = "…" + text[-LONGEST_TRACEBACK:]
    return text


def _cut(stack: traceback.StackSummary) -> None:
    """Remove the first frames while they are Optsmith's, unless all are, and those of its watch."""
    others = (i for i, frame in enumerate(stack) if not frame.filename.startswith(_PACKAGE))
    del stack[: next(others, 0)]
    stack[:] = [frame for frame in stack if frame.filename != _WATCH]
