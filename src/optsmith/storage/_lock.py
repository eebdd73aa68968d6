"""One writer a study: a lock of the operating system, which ends with the process that holds it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from optsmith._directories import cache_dir
from optsmith._errors import StudyError


def hold(path: Path, study: str) -> BaseFileLock:
    """Take the lock at `path` for as long as the process lives or until it is released.

    Raises:
        StudyError: Another process, or this one, is writing the study; raised at once.
        OSError: There can be no lock at `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    note = path.with_suffix(".pid")  # not in the lock itself: who tries in vain may empty that
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not path.exists():  # filelock takes a directory without room for files for contention
            raise OSError(0, "no file can be made there") from None
        raise StudyError(
            f'study "{study}" is being written by {_holder(note)}:'
            " wait for it or choose another --study"
        ) from None
    with suppress(OSError):  # it serves the message above alone
        note.write_text(f"{os.getpid()} {platform.node()}", encoding="utf-8")
    return lock


def shared_lock_path(key: str) -> Path:
    """Return where this user's processes meet for something that is not a file, such as a table."""
    return cache_dir() / "locks" / f"{sha256(key.encode()).hexdigest()[:32]}.lock"


def _holder(note: Path) -> str:
    try:
        process, node = note.read_text(encoding="utf-8").split(" ", 1)
    except (OSError, ValueError):
        return "another process"
    return f"process {process}" + (f" on {node}" if node != platform.node() else "")
