"""What a dataset is: files with checksums, where they can be had, and how they are read."""

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
"""Makes some of a dataset's files from something downloaded: (download, directory, names)."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a dataset, in the one form in which it is kept.

    Attributes:
        name: Its name, with `/` when the dataset has folders.
        size: Its bytes.
        checksum: Algorithm and hexadecimal digest, such as `sha256:ba891046…`.
    """

    name: str
    size: int
    checksum: str


class Source(ABC):
    """A way to get the files of a dataset.

    A source does not verify what it yields, knows nothing of the cache, and writes nowhere but
    into the directory that it is given.

    Attributes:
        remote: Whether it may need a network.
    """

    remote: ClassVar[bool] = True

    @property
    @abstractmethod
    def label(self) -> str:
        """What it is, for messages."""

    def where(self) -> Path | None:
        """Return where on this machine it is; None when it is not."""
        return None

    def near(self, data_dir: Path) -> Source:
        """Return the source that looks into a user's directory first, if it looks into any."""
        return self

    @abstractmethod
    def fetch(self, wanted: Sequence[str], scratch: Path, progress: Progress) -> Iterator[str]:
        """Put the wanted files into `scratch`, and yield the name of each once it is complete.

        Names not wanted are never yielded. The caller may move a file away once it is yielded.

        Raises:
            DataError: A file cannot be had from here; those yielded before are good.
        """


@dataclass(frozen=True)
class Dataset:
    """A dataset, declared as data.

    Attributes:
        name: Its name in `load` and on the command line.
        title: What it is, in a few words.
        files: The files, uncompressed. Sources that have the data in another form rebuild these
            byte for byte, so one checksum per file serves all sources.
        read: Turns the directory that holds the verified files into what `load` returns.
        sources: Ways to get the files, tried in order.
        folders: Names that the dataset's folder may have besides `name`.
        packages: Installed packages that have the files as they are: distribution and folder.
        reads_packed: Whether `read` also takes a file with `.gz` behind its name. Otherwise such
            files are unpacked into the cache first.
        licence: Under which terms it may be used.
        citation: Whom to cite.
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
        """Bytes of all files."""
        return sum(file.size for file in self.files)


datasets: Registry[Dataset] = Registry("dataset")
"""The datasets by name."""
