"""Extraction of files from archives; only the requested files are written."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from optsmith._errors import DataError
from optsmith.data._base import Unpack


@contextmanager
def damage_named(archive: Path) -> Iterator[None]:
    """Convert the errors of archive modules to a `DataError` that names the archive.

    Raises:
        DataError: The archive is damaged, or a member is missing.
    """
    try:
        yield
    except KeyError as error:
        raise DataError(f"{archive.name} does not contain {error.args[0]}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, tarfile.TarError) as error:
        raise DataError(f"{archive.name} is truncated or damaged: {error}") from None


def _copy(stream: gzip.GzipFile | IO[bytes], into: Path, name: str) -> None:
    target = into / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)


def gunzip(archive: Path, into: Path, names: Sequence[str]) -> None:
    """Decompress a `.gz` file to the one file in `names`.

    Raises:
        DataError: The archive is damaged.
    """
    (name,) = names
    with damage_named(archive), gzip.open(archive, "rb") as stream:
        _copy(stream, into, name)


def from_archive(prefix: str = "") -> Unpack:
    """Return a function that extracts files from a zip or tar archive.

    The members' names are `prefix` followed by the name of the file. Members are copied to given
    names, so an archive cannot write elsewhere.
    """

    def unpack(archive: Path, into: Path, names: Sequence[str]) -> None:
        with damage_named(archive):
            if zipfile.is_zipfile(archive):
                with zipfile.ZipFile(archive) as opened:
                    for name in names:
                        with opened.open(prefix + name) as stream:
                            _copy(stream, into, name)
                return
            with tarfile.open(archive) as tape:
                for name in names:
                    member = tape.extractfile(prefix + name)
                    if member is None:
                        raise KeyError(prefix + name)
                    _copy(member, into, name)

    return unpack
