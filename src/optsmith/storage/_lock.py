"""Lock of the one writer of a study; the system releases it when the process ends."""

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
    """Acquire the lock at `path`; it is held until it is released or the process ends.

    Raises:
        StudyError: The study is being written by this or another process; there is no waiting.
        OSError: The lock file cannot be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    note = path.with_suffix(".pid")  # a failed attempt may empty the lock file
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not path.exists():  # filelock reports a missing file as contention
            raise OSError(0, "no file can be made there") from None
        raise StudyError(
            f'study "{study}" is being written by {_holder(note)}:'
            " wait for it or choose another --study"
        ) from None
    with suppress(OSError):  # only used in the message above
        note.write_text(f"{os.getpid()} {platform.node()}", encoding="utf-8")
    return lock


def shared_lock_path(key: str) -> Path:
    """Return the path of this user's lock for a key, such as the URL of a database."""
    return cache_dir() / "locks" / f"{sha256(key.encode()).hexdigest()[:32]}.lock"


def _holder(note: Path) -> str:
    try:
        process, node = note.read_text(encoding="utf-8").split(" ", 1)
    except (OSError, ValueError):
        return "another process"
    return f"process {process}" + (f" on {node}" if node != platform.node() else "")
