"""The digits dataset of scikit-learn: 1 797 handwritten digits of 8 by 8 pixels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from optsmith.data._base import DataFile, Dataset, datasets
from optsmith.data._checksum import PACKED, open_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FILE = "digits.csv"


class Digits(NamedTuple):
    """The digits, as read-only arrays of bytes.

    Attributes:
        images: Shape (1797, 8, 8), values from 0 to 16.
        labels: Shape (1797,).
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.uint8]


def _read(directory: Path) -> Digits:
    """Read the file directly, because importing scikit-learn takes seconds."""
    import numpy as np

    plain = directory / _FILE
    path = plain if plain.exists() else directory / (_FILE + PACKED)
    with open_file(path) as stream:
        rows = np.loadtxt(stream, delimiter=",", dtype=np.uint8)
    rows.flags.writeable = False
    return Digits(rows[:, :64].reshape(-1, 8, 8), rows[:, 64])


datasets.add(
    "digits",
    Dataset(
        name="digits",
        title="1 797 handwritten digits, 8 by 8 pixels",
        files=(
            DataFile(
                _FILE,
                264712,
                "sha256:6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8",
            ),
        ),
        read=_read,
        packages=(("scikit-learn", "sklearn/datasets/data"),),
        reads_packed=True,
        licence="CC BY 4.0",
        citation="Alpaydin, Kaynak: Optical recognition of handwritten digits, "
        "UCI Machine Learning Repository, 1998",
    ),
)
