"""The places where a dataset may be on this machine, in search order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from optsmith._directories import cache_dir
from optsmith._errors import DataError
from optsmith.data._base import Dataset
from optsmith.data._checksum import PACKED
from optsmith.data._packages import installed


@dataclass(frozen=True, slots=True)
class DatasetPlace:
    """A directory that may contain a dataset.

    Attributes:
        directory: The directory.
        kind: `data_dir`, `OPTSMITH_DATA`, `cache`, or `installed package …`.
    """

    directory: Path
    kind: str

    @property
    def users(self) -> bool:
        """Whether the user chose the directory, so that an invalid file in it is an error."""
        return self.kind in ("data_dir", "OPTSMITH_DATA")

    def find(self, dataset: Dataset) -> dict[str, Path]:
        """Return the paths of the dataset's files in this place, compressed or not, by name."""
        found = {}
        for file in dataset.files:
            plain = self.directory / file.name
            for path in (plain, plain.with_name(plain.name + PACKED)):
                if os.path.isfile(path):  # unlike Path.is_file, False without permission
                    found[file.name] = path
                    break
        return found


def cache_place(dataset: Dataset) -> DatasetPlace:
    """Return the place of a dataset in the cache."""
    return DatasetPlace(cache_dir(dataset.name) / dataset.name, "cache")


def _in_root(dataset: Dataset, root: Path, kind: str) -> Iterator[DatasetPlace]:
    """Yield the place of the dataset in a user's directory, if there is one.

    Raises:
        DataError: The directory does not exist or is incomplete.
    """
    if not root.is_dir():
        raise DataError(f"{kind} is {root}, which is not a directory")
    folders = [root / name for name in (dataset.name, *dataset.folders)]
    candidates = [DatasetPlace(directory, kind) for directory in (*folders, root)]
    for place in candidates:
        found = place.find(dataset)
        if len(found) == len(dataset.files):
            yield place
            return
    for place in candidates:
        found = place.find(dataset)
        if found:
            missing = next(file.name for file in dataset.files if file.name not in found)
            raise DataError(
                f"{place.directory} has {len(found)} of the {len(dataset.files)} files of "
                f"{dataset.name}: {missing} is missing (with or without {PACKED})"
            )


def places(dataset: Dataset, data_dir: str | os.PathLike[str] | None) -> Iterator[DatasetPlace]:
    """Yield the places where a dataset may be, in search order.

    Raises:
        DataError: A user's directory does not exist or is incomplete.
    """
    if data_dir is not None:
        yield from _in_root(dataset, Path(data_dir).expanduser().absolute(), "data_dir")
    if root := os.environ.get("OPTSMITH_DATA"):
        yield from _in_root(dataset, Path(root).expanduser().absolute(), "OPTSMITH_DATA")
    yield cache_place(dataset)
    for distribution, folder in dataset.packages:
        directory = installed(distribution, folder)
        if directory is not None:
            yield DatasetPlace(directory, f"installed package {distribution}")


def locate(dataset: Dataset, data_dir: str | os.PathLike[str] | None = None) -> DatasetPlace | None:
    """Return the first place that contains a dataset, or None; files are not verified.

    Raises:
        DataError: A user's directory does not exist or is incomplete.
    """
    for place in places(dataset, data_dir):
        if len(place.find(dataset)) == len(dataset.files):
            return place
    for source in dataset.sources:
        if (path := source.where()) is not None:
            return DatasetPlace(path, source.label)
    return None
