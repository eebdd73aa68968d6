"""A study as a file with one line of JSON per operation, which stays usable after a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage
from optuna.storages.journal import BaseJournalBackend, JournalStorage

from optsmith._errors import OptsmithError, StudyError
from optsmith._stored import damaged

_BEGINNING = b'{"op_code":'  # of each line that Optuna writes
_CREATE_STUDY = 0  # Optuna's code of the operation
_MAX_FIRST_LINE = 1 << 20


class JournalFile(BaseJournalBackend):
    """The lines of a journal for Optuna's `JournalStorage`, which Optuna's own backend reads too.

    Optuna's backend locks every append with a file that remains after a kill, and appends to a line
    that a kill cut short. Here the caller holds one lock while the journal is open for writing, an
    incomplete last line is removed before the first append, and a line that cannot be written
    completely is removed again.

    Args:
        path: A file that exists.
        read_only: Refuse to append.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._path = path
        self._read_only = read_only
        self._repaired = False
        self._starts = [0]  # offsets of the lines read so far, and of the next one

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the operations from a number on, without an incomplete last line.

        Raises:
            StudyError: A line before the last is not an operation.
        """
        first = min(log_number_from, len(self._starts) - 1)
        with self._path.open("rb") as file:
            file.seek(self._starts[first])
            for number, line in enumerate(file, start=first):
                log = _parse(line)
                if not line.endswith(b"\n") or (log is None and not file.read(1)):
                    return
                if log is None:
                    problem = f"line {number + 1} is not an operation"
                    raise damaged(f"the journal {self._path}", problem)
                if number + 1 == len(self._starts):
                    self._starts.append(self._starts[number] + len(line))
                if number >= log_number_from:
                    yield log

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write operations to the disk, completely or not at all.

        Raises:
            OSError: They cannot be written.
        """
        if self._read_only:
            raise StudyError(f"{self._path} was opened for reading only")
        if not self._repaired:
            repair(self._path)
            self._repaired = True
        lines = [json.dumps(log, separators=(",", ":"), allow_nan=False) + "\n" for log in logs]
        _append(self._path, "".join(lines).encode())


@dataclass(frozen=True)
class JournalPlace:
    """A journal file that holds a study.

    Attributes:
        path: The file, which may not exist yet.
    """

    path: Path

    @property
    def location(self) -> str:
        """The path of the file."""
        return str(self.path)

    @property
    def lock_path(self) -> Path:
        """The lock file of the writer, next to the journal; its name differs from Optuna's."""
        path = self.path.resolve()
        return path.with_name(f".{path.name}.lock")

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self.path.is_file()

    def connect(self, *, read_only: bool) -> BaseStorage:
        """Return the storage; the caller holds the lock if it is for writing.

        Raises:
            StudyError: The file is not a journal, or damaged; it is not changed.
        """
        if self.path.exists():
            _check_beginning(self.path)
        if not read_only:
            self.path.open("ab").close()
        try:
            return JournalStorage(JournalFile(self.path, read_only=read_only))
        except (OptsmithError, OSError):
            raise
        except Exception as error:  # Optuna's replay of damaged operations can raise anything
            problem = f"Optuna cannot replay it ({type(error).__name__})"
            raise damaged(f"the journal {self.path}", problem) from None

    def disconnect(self, storage: BaseStorage) -> None:
        """Do nothing: no file is open."""


def repair(path: Path) -> None:
    """Remove a last line that is incomplete after a kill or on a full disk."""
    with path.open("r+b") as file:
        start, line = 0, b""
        for next_line in file:
            start, line = start + len(line), next_line
        if line and (not line.endswith(b"\n") or _parse(line) is None):
            file.truncate(start)
            os.fsync(file.fileno())


def directory_studies(directory: Path) -> list[str]:
    """Return the names of the studies in a directory of journals."""
    return sorted(path.stem for path in directory.glob("*.journal") if _begins_study(path))


def _begins_study(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            log = _parse(file.readline(_MAX_FIRST_LINE))
    except OSError:
        return False
    return (
        log is not None and log["op_code"] == _CREATE_STUDY and log.get("study_name") == path.stem
    )


def _check_beginning(path: Path) -> None:
    with path.open("rb") as file:
        line = file.readline(_MAX_FIRST_LINE)
    if line.endswith(b"\n"):
        fine = _parse(line) is not None
    else:  # empty, or an incomplete first line
        fine = line.startswith(_BEGINNING) or _BEGINNING.startswith(line)
    if not fine:
        raise StudyError(f"{path} is not the journal of a study: choose another --storage")


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        log = json.loads(line, parse_constant=_refuse)
    except ValueError:
        return None
    return log if isinstance(log, dict) and isinstance(log.get("op_code"), int) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _append(path: Path, data: bytes) -> None:
    # Without O_CREAT: an error is better than a journal without its beginning.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
    try:
        before, written = os.fstat(file).st_size, 0
        try:
            while written < len(data):
                written += os.write(file, data[written:])
            os.fsync(file)
        except OSError:
            with suppress(OSError):
                if os.fstat(file).st_size == before + written:
                    os.ftruncate(file, before)
            raise
    finally:
        os.close(file)
