"""Datasets: located on this machine or downloaded, verified and read."""

from typing import TYPE_CHECKING, Any

from optsmith._directories import cache_dir
from optsmith.data._archive import damage_named, from_archive, gunzip
from optsmith.data._base import DataFile, Dataset, Source, Unpack, datasets
from optsmith.data._checksum import open_file
from optsmith.data._cifar10 import Cifar10
from optsmith.data._digits import Digits
from optsmith.data._load import fetch, load, where
from optsmith.data._mnist import Mnist
from optsmith.data._packages import InstalledPackage, NpmPackage, PypiPackage
from optsmith.data._places import DatasetPlace, locate
from optsmith.data._urls import Download, Urls

if TYPE_CHECKING:
    from optsmith.data._unpickle import load_arrays

__all__ = [
    "Cifar10",
    "DataFile",
    "Dataset",
    "DatasetPlace",
    "Digits",
    "Download",
    "InstalledPackage",
    "Mnist",
    "NpmPackage",
    "PypiPackage",
    "Source",
    "Unpack",
    "Urls",
    "cache_dir",
    "damage_named",
    "datasets",
    "fetch",
    "from_archive",
    "gunzip",
    "load",
    "load_arrays",
    "locate",
    "open_file",
    "where",
]


def __getattr__(name: str) -> Any:
    if name != "load_arrays":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from optsmith.data._unpickle import load_arrays  # imported on first use, because it needs NumPy

    return load_arrays
