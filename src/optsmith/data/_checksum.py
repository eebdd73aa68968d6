"""Is a file what it should be? And has that been asked before?"""

from __future__ import annotations

import gzip
import hashlib
import json
import uuid
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from optsmith.data._base import DataFile

PACKED = ".gz"
_SMALL = 1 << 20  # hashing less takes no longer than looking a stamp up


def open_file(path: Path) -> Any:
    """Open a file for its content: what is in it when its name ends with `.gz`."""
    return gzip.open(path, "rb") if path.name.endswith(PACKED) else path.open("rb")


def fault(path: Path, checksum: str, size: int | None = None, packed: bool = False) -> str:
    """Return what is wrong with a file, or an empty string.

    Args:
        path: The file.
        checksum: What its checksum must be.
        size: How many bytes it must have; None when that is not known.
        packed: Whether a file whose name ends with `.gz` is judged by its content.
    """
    algorithm, _, expected = checksum.partition(":")
    digest, count = hashlib.new(algorithm, usedforsecurity=False), 0
    where = f"{path.name} in {path.parent}"
    try:
        with open_file(path) if packed else path.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
                count += len(chunk)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return f"{where} is truncated or damaged: {error}"
    except OSError as error:
        return f"{where} cannot be read: {error.strerror}"
    if digest.hexdigest() == expected:
        return ""
    actual = f"{algorithm} {digest.hexdigest()[:12]}… instead of {expected[:12]}…"
    if size is not None and count != size:
        cut = "truncated" if count < size else "not the right file"
        return f"{where} is {cut}: {count:,} bytes instead of {size:,}, {actual}"
    return f"{where} is not the right file: {actual}"


class Stamps:
    """Remembers files that were found right by size and time, so that they are hashed once.

    Whoever changes a file and then restores both its size and its time to the nanosecond gets
    past this; `optsmith data fetch` hashes regardless. Losing the record costs one hashing.
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._stamps = self._read()
        self._new: dict[str, list[Any]] = {}

    def _read(self) -> dict[str, list[Any]]:
        try:
            stamps = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stamps if isinstance(stamps, dict) else {}

    def fault(self, path: Path, file: DataFile, thorough: bool = False) -> str:
        """Return what is wrong with a file, or an empty string.

        Args:
            path: Where it lies, packed or not.
            file: What it must be.
            thorough: Whether to hash it although it was found right before.
        """
        key = str(path.resolve())
        try:
            status = path.stat()  # before hashing: a change during it must not get a stamp
        except OSError as error:
            return f"{path.name} in {path.parent} cannot be read: {error.strerror}"
        stamp = [status.st_size, status.st_mtime_ns, file.checksum]
        if not thorough and self._stamps.get(key) == stamp:
            return ""
        problem = fault(path, file.checksum, file.size, packed=path.name != Path(file.name).name)
        if problem:
            self._stamps.pop(key, None)
        elif file.size > _SMALL:
            self._stamps[key] = self._new[key] = stamp
        return problem

    def note(self, path: Path, file: DataFile) -> None:
        """Remember a file that has just been verified."""
        if file.size > _SMALL:
            key, status = str(path.resolve()), path.stat()
            stamp = [status.st_size, status.st_mtime_ns, file.checksum]
            self._stamps[key] = self._new[key] = stamp

    def save(self) -> None:
        """Write what is new; a directory that cannot be written to is no reason to fail."""
        if not self._new:
            return
        temporary = self._record.with_name(f".verified-{uuid.uuid4().hex}")
        try:
            self._record.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps({**self._read(), **self._new}), encoding="utf-8")
            temporary.replace(self._record)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
