"""Reading PNG images of 8-bit colours: enough for packages that keep a dataset as pictures."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from optsmith._errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOURS = 3  # bytes a pixel


def read_png(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return a picture as an array of shape (rows, columns, 3).

    Args:
        content: The file: red, green and blue of 8 bits, not interlaced.
        name: What to call it in errors.

    Raises:
        DataError: It is damaged, or of another kind.
    """
    import numpy as np

    if not content.startswith(_SIGNATURE):
        raise DataError(f"{name} is not a PNG image")
    try:
        chunks = list(_chunks(content, name))
        width, height, *kind = struct.unpack(">IIBBBBB", dict(chunks)[b"IHDR"])
        packed = zlib.decompress(b"".join(body for tag, body in chunks if tag == b"IDAT"))
    except (KeyError, struct.error, zlib.error) as error:
        raise DataError(f"{name} is truncated or damaged: {error}") from None
    if kind != [8, 2, 0, 0, 0]:
        raise DataError(f"{name} is not a PNG image of 8-bit red, green and blue, not interlaced")
    if len(packed) != height * (1 + _COLOURS * width):
        raise DataError(f"{name} is truncated: it has {len(packed):,} bytes of pixels")
    rows = np.frombuffer(packed, np.uint8).reshape(height, -1)
    return _unfilter(rows[:, 0], rows[:, 1:], name).reshape(height, width, _COLOURS)


def _chunks(content: bytes, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the parts of a file: kind and content."""
    place = len(_SIGNATURE)
    while place < len(content):
        (size,) = struct.unpack_from(">I", content, place)
        tag, body = content[place + 4 : place + 8], content[place + 8 : place + 8 + size]
        (check,) = struct.unpack_from(">I", content, place + 8 + size)
        if check != zlib.crc32(tag + body):
            raise DataError(f"{name} is damaged: a checksum in it is wrong")
        yield tag, body
        place += 12 + size


def _unfilter(filters: NDArray[np.uint8], rows: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    """Undo what each row was made easier to compress by: its differences to its neighbours."""
    import numpy as np

    out = np.empty_like(rows)
    above = np.zeros(rows.shape[1], np.uint8)
    for filter_, row, target in zip(filters.tolist(), rows, out, strict=True):
        if filter_ == 0:
            target[:] = row
        elif filter_ == 1:  # to the pixel on the left: sums modulo 256, whole rows at once
            left = row.reshape(-1, _COLOURS).cumsum(axis=0, dtype=np.uint8)
            target[:] = left.reshape(-1)
        elif filter_ == 2:  # to the pixel above
            np.add(row, above, out=target)
        elif filter_ in (3, 4):
            target[:] = _sequential(filter_, row.tolist(), above.tolist())
        else:
            raise DataError(f"{name} is damaged: there is no filter {filter_}")
        above = target
    return out


def _sequential(filter_: int, row: list[int], above: list[int]) -> list[int]:
    """Undo the filters whose prediction needs the pixel on the left; they are rare."""
    done: list[int] = []
    for i, value in enumerate(row):
        left = done[i - _COLOURS] if i >= _COLOURS else 0
        if filter_ == 3:
            guess = (left + above[i]) // 2
        else:
            guess = _paeth(left, above[i], above[i - _COLOURS] if i >= _COLOURS else 0)
        done.append((value + guess) % 256)
    return done


def _paeth(left: int, up: int, corner: int) -> int:
    """Return the neighbour that is nearest to left + up - corner; the first of equals."""
    aim = left + up - corner
    return min((left, up, corner), key=lambda neighbour: abs(aim - neighbour))
