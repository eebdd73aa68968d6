"""Fingerprints: dictionary keys that equal functions share and different ones do not."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

BITS = 20
FLOOR = 1e-10


def quantize(values: Array) -> Array:
    """Round to about six significant digits, and drop what is noise beside its column's largest.

    Equal functions written differently agree to some 1e-15 of their terms; the rounding absorbs
    that unless a value lies just between two cells. Infinities and NaN stay what they are.
    """
    size = np.abs(values)
    finite = np.isfinite(size)
    size[~finite] = 0.0
    mantissa, exponent = np.frexp(values)
    rounded = np.ldexp(np.rint(mantissa * 2.0**BITS), exponent - BITS)
    rounded[(size < FLOOR * size.max(axis=0)) & finite] = 0.0
    rounded[np.isnan(values)] = np.nan  # one NaN, whatever its sign bit
    return np.asarray(rounded + 0.0)  # and one zero


def _hash(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def _largest(values: Array) -> float:
    size = np.abs(values)
    return float(size.max(initial=0.0, where=np.isfinite(size)))


def fingerprints(values: Array) -> tuple[str, str]:
    """Return the codes of a rule's output: of the function, and of it up to a positive factor.

    Args:
        values: One row a step, one column an element.
    """
    scale = _largest(values)
    direction = _hash(quantize(values / scale if scale else values).tobytes())
    size = quantize(np.array([scale])).tobytes()
    return _hash(direction, size).hex(), direction.hex()


def shape_code(values: Array) -> bytes:
    """Return a code of a flat output that ignores a common factor, its sign included."""
    scale = _largest(values)
    if scale:
        values = values / scale
        with np.errstate(invalid="ignore"):
            notable = values[(np.abs(values) > 1e-3) & np.isfinite(values)]
        values = values * np.sign(notable[0])
    return _hash(quantize(np.atleast_1d(values)).tobytes())
