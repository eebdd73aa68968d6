"""HTTP servers as sources of data."""

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
    """A download and the dataset's files that it contains.

    Attributes:
        path: URL relative to the base of the source.
        checksum: Published checksum, such as `md5:f68b3c2d…`.
        files: Names of the dataset's files that it contains.
        unpack: Function that writes these files from the download.
    """

    path: str
    checksum: str
    files: tuple[str, ...]
    unpack: Unpack


@dataclass(frozen=True)
class Urls(Source):
    """Files on one host.

    The first error ends the attempt, so that an unavailable host is not tried once per file.

    Attributes:
        base: Common prefix of all URLs.
        downloads: The available downloads.
    """

    base: str
    downloads: tuple[Download, ...]

    @property
    def label(self) -> str:
        """Display name of the source."""
        return urlsplit(self.base).netloc

    def fetch(self, wanted: Sequence[str], scratch: Path, progress: Progress) -> Iterator[str]:
        """Download and unpack the wanted files."""
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
