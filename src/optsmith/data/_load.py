"""Datasets by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from optsmith.data._base import Dataset, datasets
from optsmith.data._places import locate
from optsmith.data._provide import provide


def dataset_named(name: str) -> Dataset:
    """Return a dataset.

    Raises:
        OptsmithError: There is none of that name.
    """
    if name not in datasets:
        raise datasets.unknown(name)
    return datasets[name]


def load(name: str, data_dir: str | os.PathLike[str] | None = None, download: bool = True) -> Any:
    """Return a dataset, fetched when it is not on this machine.

    Looks in `data_dir`, `OPTSMITH_DATA`, the cache, installed packages, and then asks the
    dataset's sources in order. Files are verified; those found right before are hashed again only
    when their size or time has changed. Safe when several processes ask at once.

    Args:
        name: Its name in `datasets`.
        data_dir: A directory that has the files, or a folder of that name with them.
        download: Whether the network may be used.

    Returns:
        What the dataset's `read` makes of the files; arrays are read-only, and mapped into memory
        where they are large, so that processes share them.

    Raises:
        OptsmithError: There is no dataset of that name.
        DataError: It cannot be had, or a file in a user's directory is not what it should be.
    """
    dataset = dataset_named(name)
    return dataset.read(provide(dataset, data_dir, download))


def fetch(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Make sure that a dataset is on this machine, and return the directory of its files.

    Every file is hashed, also those that were found right before.

    Args:
        name: Its name in `datasets`.
        data_dir: Where to look first.

    Raises:
        OptsmithError: There is no dataset of that name.
        DataError: It cannot be had, or a file in a user's directory is not what it should be.
    """
    return provide(dataset_named(name), data_dir, thorough=True)


def where(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Return where on this machine a dataset is, or None; nothing is verified or fetched.

    Args:
        name: Its name in `datasets`.
        data_dir: Where to look first.

    Raises:
        OptsmithError: There is no dataset of that name.
        DataError: A directory that the user named is not there, or has only some of the files.
    """
    place = locate(dataset_named(name), data_dir)
    return None if place is None else place.directory
