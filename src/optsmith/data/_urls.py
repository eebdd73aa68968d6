"""Files at an address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from optsmith._errors import DataError
from optsmith.data._base import Source, Unpack
from optsmith.data._checksum import fault
from optsmith.data._progress import Progress


@dataclass(frozen=True, slots=True)
class Download:
    """One thing to download, and the dataset's files in it.

    Attributes:
        path: Its address behind the base of the source.
        checksum: As published, such as `md5:f68b3c2d…`.
        files: The names of the dataset's files that it holds.
        unpack: Makes these files of it.
    """

    path: str
    checksum: str
    files: tuple[str, ...]
    unpack: Unpack


@dataclass(frozen=True)
class Urls(Source):
    """Files at one host.

    The first failure ends the attempt, so that a host which is down is asked once and not once
    for each file.

    Attributes:
        base: What all addresses begin with.
        downloads: What is there.
    """

    base: str
    downloads: tuple[Download, ...]

    @property
    def label(self) -> str:
        """What it is, for messages."""
        return urlsplit(self.base).netloc

    def fetch(self, wanted: Sequence[str], scratch: Path, progress: Progress) -> Iterator[str]:
        """Download what holds the wanted files, one after the other."""
        from optsmith.data._http import reach, save

        reach(self.base)
        for item in self.downloads:
            names = [name for name in item.files if name in wanted]
            if not names:
                continue
            archive = scratch / ".download" / item.path.rpartition("/")[2]
            archive.parent.mkdir(exist_ok=True)
            save(self.base + item.path, archive, progress)
            problem = fault(archive, item.checksum)
            if problem:
                raise DataError(problem.replace(str(archive.parent), self.base))
            item.unpack(archive, scratch, names)
            archive.unlink()
            yield from names
