"""A private directory of large arrays, which all workers map instead of each having a copy."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from optsmith._errors import StudyError

_NAME = re.compile(r"optsmith-shelf-(\d+)-\w+")


class Shelf:
    """Files in a temporary directory that is made on first use and gone after `remove`.

    The directory is locked as long as its process lives. What a killed process left behind is
    removed by the next one that makes a shelf.
    """

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._lock: int | None = None
        self._count = 0

    def write(self, data: memoryview) -> str:
        """Write a new file and return its path.

        Raises:
            StudyError: There is no room for it, or no permission.
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
                f" ({error.strerror}); set TMPDIR to a directory with more room"
            ) from None
        return path

    def remove(self) -> None:
        """Delete the directory; processes that have mapped its files keep what they mapped."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
        self._directory = self._lock = None

    def _make(self) -> None:
        _remove_leftovers()
        self._directory = Path(tempfile.mkdtemp(prefix=f"optsmith-shelf-{os.getpid()}-"))
        self._lock = _lock(self._directory)


def _remove_leftovers() -> None:
    for path in Path(tempfile.gettempdir()).glob("optsmith-shelf-*"):
        match = _NAME.fullmatch(path.name)
        if match is None or _alive(int(match[1])):
            continue
        # A dead number may be a process that lives in another container; its lock tells.
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
    """Lock a directory until the returned descriptor is closed; None when another holds it."""
    import fcntl  # not on Windows, where importing this module must still work

    descriptor = -1
    try:
        descriptor = os.open(directory, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # also: not ours to open, or a file system without locks
        if descriptor >= 0:
            os.close(descriptor)
        return None
    return descriptor
