"""Declarations of datasets: files with checksums, sources, and a reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from optsmith._registry import Registry

if TYPE_CHECKING:
    from optsmith.data._progress import Progress

Unpack = Callable[[Path, Path, Sequence[str]], None]
"""A function (download, directory, names) that writes files of a dataset from a download."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a dataset, uncompressed.

    Attributes:
        name: File name, with `/` if the dataset has folders.
        size: Size in bytes.
        checksum: Algorithm and hexadecimal digest, such as `sha256:ba891046…`.
    """

    name: str
    size: int
    checksum: str


class Source(ABC):
    """A source of the files of a dataset.

    A source does not verify files, does not depend on the cache, and writes only to the directory
    that is passed to `fetch`.

    Attributes:
        remote: Whether the source needs a network.
    """

    remote: ClassVar[bool] = True

    @property
    @abstractmethod
    def label(self) -> str:
        """Display name of the source."""

    def where(self) -> Path | None:
        """Return the path of the source on this machine; None if it is not on this machine."""
        return None

    def near(self, data_dir: Path) -> Source:
        """Return a source that also searches a user's directory, if it searches directories."""
        return self

    @abstractmethod
    def fetch(self, wanted: Sequence[str], scratch: Path, progress: Progress) -> Iterator[str]:
        """Write the wanted files to `scratch`, and yield the name of each complete file.

        Only wanted names are yielded. The caller may move a file after it was yielded.

        Raises:
            DataError: A file is not available; files that were yielded before are valid.
        """


@dataclass(frozen=True)
class Dataset:
    """The declaration of a dataset.

    Attributes:
        name: Name in `load` and on the command line.
        title: Short description.
        files: The files, uncompressed. Sources with another format rebuild these byte for byte, so
            there is one checksum per file for all sources.
        read: Function from the directory of the verified files to the result of `load`.
        sources: Sources of the files, tried in order.
        folders: Alternatives to `name` as the name of the dataset's folder.
        packages: Installed packages that contain the files: distribution and folder.
        reads_packed: Whether `read` also supports `.gz` files. Otherwise they are decompressed into
            the cache.
        licence: License of the data.
        citation: Publication to cite.
    """

    name: str
    title: str
    files: tuple[DataFile, ...]
    read: Callable[[Path], Any]
    sources: tuple[Source, ...] = ()
    folders: tuple[str, ...] = ()
    packages: tuple[tuple[str, str], ...] = ()
    reads_packed: bool = False
    licence: str = ""
    citation: str = ""

    @property
    def size(self) -> int:
        """Total size of all files in bytes."""
        return sum(file.size for file in self.files)


datasets: Registry[Dataset] = Registry("dataset")
"""The registry of datasets."""
