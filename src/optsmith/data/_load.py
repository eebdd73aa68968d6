"""Functions that load, download and locate a dataset by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from optsmith.data._base import Dataset, datasets
from optsmith.data._places import locate
from optsmith.data._provide import provide


def dataset_named(name: str) -> Dataset:
    """Return the declaration of a dataset.

    Raises:
        OptsmithError: There is no dataset of that name.
    """
    if name not in datasets:
        raise datasets.unknown(name)
    return datasets[name]


def load(name: str, data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Any:
    """Load a dataset, downloading it if it is not on this machine.

    Searches `data_dir`, `OPTSMITH_DATA`, the cache and installed packages, and then tries the
    dataset's sources in order. Files are verified; verified files are hashed again only if their
    size or modification time has changed. Safe for concurrent processes.

    Args:
        name: Name in `datasets`.
        data_dir: Directory with the files, or with a folder named like the dataset.
        download: Whether the network may be used.

    Returns:
        The result of the dataset's `read`. Arrays are read-only; large arrays are memory-mapped, so
        that processes share them.

    Raises:
        OptsmithError: There is no dataset of that name.
        DataError: The dataset is not available, or a file in a user's directory is invalid.
    """
    dataset = dataset_named(name)
    return dataset.read(provide(dataset, data_dir, download))


def fetch(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Download a dataset if it is not on this machine, and return the directory of its files.

    Every file is hashed, even if it was already verified.

    Args:
        name: Name in `datasets`.
        data_dir: Directory to search first.

    Raises:
        OptsmithError: There is no dataset of that name.
        DataError: The dataset is not available, or a file in a user's directory is invalid.
    """
    return provide(dataset_named(name), data_dir, thorough=True)


def where(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the directory of a dataset on this machine, or None, without verification or download.

    Args:
        name: Name in `datasets`.
        data_dir: Directory to search first.

    Raises:
        OptsmithError: There is no dataset of that name.
        DataError: A user's directory does not exist or is incomplete.
    """
    place = locate(dataset_named(name), data_dir)
    return None if place is None else place.directory
