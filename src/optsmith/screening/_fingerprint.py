"""Fingerprints: dictionary keys that equal functions share and different ones do not."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

FLOOR = 1e-10

# Sign, exponent and 20 of the 52 bits of the mantissa make 32 bits: six significant digits.
_DROPPED = 52 - 20
_HALF = np.int64(1 << (_DROPPED - 1))
_NAN = np.int32(0x7FFFFFFF)


def _sizes(values: Array) -> Array:
    """Return absolute values, 0 for those that are not finite."""
    size = np.abs(values)
    size[~np.isfinite(size)] = 0.0
    return size


def _noise_floor(size: Array) -> Array:
    """Return below what an entry is noise: negligible both in its row and in its column.

    A row or a column alone can be vast (a division by a decay near its end, a burst), which says
    nothing of the terms that were added elsewhere.
    """
    if size.ndim == 1:
        return np.asarray(FLOOR * size.max(keepdims=True))
    return np.asarray(FLOOR * np.minimum(size.max(axis=0), size.max(axis=1)[:, None]))


def quantize(values: Array, scale: float, size: Array) -> bytes:
    """Return `values / scale` rounded to about six significant digits, noise as 0.

    Equal functions written differently agree to some 1e-15 of their terms; the rounding absorbs
    that unless a value lies just between two cells. Infinities and NaN stay what they are.
    """
    # As integers, floats of one sign are in order, so a carry goes to the exponent as it should.
    bits = (values / scale).view(np.int64)
    rounded = ((bits + _HALF) >> _DROPPED).astype(np.int32)
    rounded[(size <= _noise_floor(size)) & np.isfinite(values)] = 0  # both zeros, too
    rounded[np.isnan(values)] = _NAN  # whatever its sign and payload
    return rounded.tobytes()


def _hash(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def fingerprints(values: Array) -> tuple[str, str]:
    """Return the codes of a rule's output: of the function, and of it up to a positive factor.

    Args:
        values: One row a step, one column an element.
    """
    size = _sizes(values)
    scale = float(size.max())
    direction = _hash(quantize(values, scale or 1.0, size))
    return _hash(direction, b"%.5e" % scale).hex(), direction.hex()


def shape_code(values: Array) -> bytes:
    """Return a code of a flat output that ignores a common factor, its sign included."""
    size = _sizes(values)
    scale = float(size.max())
    if scale:
        scale *= np.sign(values[np.argmax(size > 1e-3 * scale)])
    return _hash(quantize(values, scale or 1.0, size))
