"""Locates, verifies and downloads the files of a dataset."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from optsmith._errors import DataError
from optsmith.data._archive import gunzip
from optsmith.data._base import DataFile, Dataset, Source
from optsmith.data._checksum import Stamps, fault
from optsmith.data._places import cache_place, places
from optsmith.data._progress import Progress, progress

_SCRATCH = ".fetch-"


@dataclass(frozen=True)
class _Found(Source):
    """A user's files, some of them compressed."""

    paths: Mapping[str, Path]

    @property
    def label(self) -> str:
        return "the compressed files"

    def fetch(self, wanted: Sequence[str], scratch: Path, progress: Progress) -> Iterator[str]:
        for name in wanted:
            path = self.paths[name]
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            with progress.step(f"unpacking {path.name}"):
                if path.name == Path(name).name:
                    shutil.copyfile(path, scratch / name)
                else:
                    gunzip(path, scratch, [name])
            yield name


def provide(
    dataset: Dataset,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    thorough: bool = False,
) -> Path:
    """Return a directory with the verified files of a dataset.

    Args:
        dataset: The dataset.
        data_dir: Directory to search first.
        download: Whether the network may be used.
        thorough: Whether to hash files that were already verified.

    Raises:
        DataError: The dataset is not available, or a file in a user's directory is invalid.
    """
    home = cache_place(dataset).directory
    stamps = Stamps(home / ".verified.json")
    faults: list[str] = []
    try:
        for place in places(dataset, data_dir):
            found = place.find(dataset)
            if len(found) < len(dataset.files):
                continue
            checks = (stamps.fault(found[f.name], f, thorough) for f in dataset.files)
            problem = next(filter(None, checks), "")
            if problem and place.users:
                raise DataError(f"{problem}; replace or remove it")
            if problem:
                faults.append(problem)
                continue
            unpacked = all(found[f.name] == place.directory / f.name for f in dataset.files)
            if unpacked or dataset.reads_packed:
                return place.directory
            if any(stamps.fault(home / f.name, f, thorough) for f in dataset.files):
                _fill(dataset, home, stamps, [_Found(found)], faults)
            return home
        sources = dataset.sources
        if data_dir is not None:
            user = Path(data_dir).expanduser().absolute()
            sources = tuple(source.near(user) for source in sources)
        usable = [s for s in sources if (download if s.remote else s.where())]
        _fill(dataset, home, stamps, usable, faults)
        return home
    finally:
        stamps.save()


@contextmanager
def _alone(home: Path, shown: Progress) -> Iterator[None]:
    """Lock the cache of a dataset, so that only one process at a time changes it."""
    from filelock import FileLock, Timeout

    home.mkdir(parents=True, exist_ok=True)
    lock = FileLock(home / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        with shown.step(f"waiting for another process that downloads {home.name}"):
            lock.acquire()
    try:
        for leftover in home.glob(f"{_SCRATCH}*"):  # of a killed process
            shutil.rmtree(leftover, ignore_errors=True)
        yield
    finally:
        lock.release()


def _fill(
    dataset: Dataset, home: Path, stamps: Stamps, sources: Sequence[Source], faults: list[str]
) -> None:
    """Fetch the missing files of the cache one by one, so that complete files are kept."""
    try:
        with progress() as shown, _alone(home, shown):
            # Checked again, because another process may have fetched files before we got the lock.
            missing = {f.name: f for f in dataset.files if stamps.fault(home / f.name, f)}
            for source in sources:
                if not missing:
                    break
                try:
                    _fetch(source, missing, home, stamps, shown)
                    shown.note(f"{dataset.name}: fetched from {source.label}")
                except DataError as error:
                    faults.append(f"{source.label}: {error}")
                    shown.note(f"{dataset.name}: not available from {faults[-1]}")
    except OSError as error:
        raise DataError(
            f"{dataset.name} cannot be written to {home}: {error.strerror or error}; "
            "set OPTSMITH_CACHE to another directory"
        ) from None
    if missing:
        raise DataError(_unavailable(dataset, faults))


def _fetch(
    source: Source, missing: dict[str, DataFile], home: Path, stamps: Stamps, shown: Progress
) -> None:
    """Move each file from a source to the cache as soon as it is verified.

    Raises:
        DataError: The source fails, or one of its files is invalid.
    """
    with tempfile.TemporaryDirectory(dir=home, prefix=_SCRATCH) as scratch:
        for name in source.fetch(tuple(missing), Path(scratch), shown):
            file, path = missing[name], Path(scratch) / name
            problem = fault(path, file.checksum, file.size)
            if problem:
                raise DataError(problem.replace(f" in {path.parent}", ""))
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            path.replace(home / name)
            stamps.note(home / name, file)
            del missing[name]


def _unavailable(dataset: Dataset, faults: Iterable[str]) -> str:
    """Return an error message that says how to provide the dataset and what was tried."""
    names = ", ".join(file.name for file in dataset.files[:6])
    more = f" and {len(dataset.files) - 6} more" if len(dataset.files) > 6 else ""
    tried = "; ".join(faults)
    return (
        f"{dataset.name} is not on this machine and was not downloaded: set --data-dir or "
        f"OPTSMITH_DATA to a directory with {names}{more} (with or without .gz), or run "
        f"`optsmith data fetch {dataset.name}` on a machine with a network and copy "
        f"{cache_place(dataset).directory} from there" + (f" (tried {tried})" if tried else "")
    )
