"""Verification of files by checksum, with a record of verified files."""

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
_SMALL = 1 << 20  # smaller files are hashed as fast as a stamp is looked up


def open_file(path: Path) -> Any:
    """Open a file for reading bytes, decompressed if its name ends with `.gz`."""
    return gzip.open(path, "rb") if path.name.endswith(PACKED) else path.open("rb")


def fault(path: Path, checksum: str, size: int | None = None, packed: bool = False) -> str:
    """Return what is wrong with a file; empty if it is valid.

    Args:
        path: The file.
        checksum: Expected checksum.
        size: Expected size in bytes; None if unknown.
        packed: Whether a `.gz` file is decompressed before verification.
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
    """Records the size and modification time of verified files, so that they are hashed once.

    A change that preserves both is not detected; `optsmith data fetch` always hashes. If the record
    is lost, files are hashed again.
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
        """Return what is wrong with a file; empty if it is valid.

        Args:
            path: Path of the file, compressed or not.
            file: Its declaration.
            thorough: Whether to hash a file that was already verified.
        """
        key = str(path.resolve())
        try:
            status = path.stat()  # before hashing, so that a change during it is detected later
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
        """Record a file that was just verified."""
        if file.size > _SMALL:
            key, status = str(path.resolve()), path.stat()
            stamp = [status.st_size, status.st_mtime_ns, file.checksum]
            self._stamps[key] = self._new[key] = stamp

    def save(self) -> None:
        """Write new entries of the record; does nothing if the directory is not writable."""
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
