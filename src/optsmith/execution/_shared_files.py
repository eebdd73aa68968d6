"""Temporary files of large arrays, which all workers map instead of copying them."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from optsmith._errors import StudyError

_NAME = re.compile(r"optsmith-shared-(\d+)-\w+")


class SharedFiles:
    """Files in a temporary directory that is created on first use and deleted by `remove`.

    The directory is locked while this process lives. Directories of killed processes are deleted
    when another process creates one.
    """

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._lock: int | None = None
        self._count = 0

    def write(self, data: memoryview) -> str:
        """Write a new file and return its path.

        Raises:
            StudyError: The disk is full, or the directory is not writable.
        """
        try:
            if self._directory is None:
                self._make()
            self._count += 1
            path = f"{self._directory}/{self._count}"
            with open(path, "wb") as file:
                file.write(data)
        except OSError as error:
            raise StudyError(
                f"cannot write the data that workers share to {tempfile.gettempdir()}"
                f" ({error.strerror}); set TMPDIR to a directory with more space"
            ) from None
        return path

    def remove(self) -> None:
        """Delete the directory; existing memory maps of its files stay valid."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
        self._directory = self._lock = None

    def _make(self) -> None:
        _remove_leftovers()
        self._directory = Path(tempfile.mkdtemp(prefix=f"optsmith-shared-{os.getpid()}-"))
        self._lock = _lock(self._directory)


def _remove_leftovers() -> None:
    for path in Path(tempfile.gettempdir()).glob("optsmith-shared-*"):
        match = _NAME.fullmatch(path.name)
        if match is None or _alive(int(match[1])):
            continue
        # The process may be alive in another container, which the lock shows.
        lock = _lock(path)
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _lock(directory: Path) -> int | None:
    """Return the descriptor of a locked directory; None if another process holds the lock."""
    import fcntl  # not available on Windows, where this module must be importable

    descriptor = -1
    try:
        descriptor = os.open(directory, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # also without permission, or on a file system without locks
        if descriptor >= 0:
            os.close(descriptor)
        return None
    return descriptor
