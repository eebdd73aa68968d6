"""Taking files out of what was downloaded; nothing is written but the names asked for."""

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
    """Turn what archive modules raise into one error that names the archive.

    Raises:
        DataError: The block found the archive damaged, or something missing in it.
    """
    try:
        yield
    except KeyError as error:
        raise DataError(f"{archive.name} does not have {error.args[0]}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, tarfile.TarError) as error:
        raise DataError(f"{archive.name} is truncated or damaged: {error}") from None


def _copy(stream: gzip.GzipFile | IO[bytes], into: Path, name: str) -> None:
    target = into / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)


def gunzip(archive: Path, into: Path, names: Sequence[str]) -> None:
    """Unpack a `.gz` file, which holds the one file asked for.

    Raises:
        DataError: It is damaged.
    """
    (name,) = names
    with damage_named(archive), gzip.open(archive, "rb") as stream:
        _copy(stream, into, name)


def from_archive(prefix: str = "") -> Unpack:
    """Return how to take files out of a zip or tar archive that has them behind `prefix`.

    Members are copied by name into files that we name, so an archive cannot write elsewhere.
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
