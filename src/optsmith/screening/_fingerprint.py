"""Fingerprints: hashes that are equal for equal functions and differ for different ones."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

FLOOR = 1e-10
"""Relative magnitude below which elements are treated as rounding errors."""

# Sign, exponent and 20 of the mantissa's 52 bits are kept: 32 bits, six significant digits.
_DROPPED = 52 - 20
_HALF = np.int64(1 << (_DROPPED - 1))
_NAN = np.int32(0x7FFFFFFF)


def _sizes(values: Array) -> Array:
    """Return absolute values, with 0 for non-finite values."""
    size = np.abs(values)
    size[~np.isfinite(size)] = 0.0
    return size


def _noise_floor(size: Array) -> Array:
    """Return the threshold below which an element is a rounding error.

    An element must be negligible in its row and in its column, because one row or column may be
    large by itself (a division by a decay near 0, a burst of gradients).
    """
    if size.ndim == 1:
        return np.asarray(FLOOR * size.max(keepdims=True))
    return np.asarray(FLOOR * np.minimum(size.max(axis=0), size.max(axis=1)[:, None]))


def quantize(values: Array, scale: float, size: Array) -> bytes:
    """Return `values / scale` rounded to about six significant digits, with noise set to 0.

    Different forms of a function differ by rounding errors of about 1e-15, which the rounding
    removes unless a value is very close to the middle between two results. Infinities and NaN are
    kept.
    """
    # The bits of floats, as integers, have the order of the floats, so a carry of the rounding
    # correctly changes the exponent.
    bits = (values / scale).view(np.int64)
    rounded = ((bits + _HALF) >> _DROPPED).astype(np.int32)
    rounded[(size <= _noise_floor(size)) & np.isfinite(values)] = 0  # including -0.0
    rounded[np.isnan(values)] = _NAN  # regardless of sign and payload
    return rounded.tobytes()


def _hash(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def fingerprints(*parts: Array) -> tuple[str, str]:
    """Return two codes of a rule's output: of the function, and up to a positive factor.

    Args:
        parts: The outputs for several kinds of parameters, one row per step and one column per
            element. They are divided by a common factor. A part that equals the part before it
            changes nothing, so that a rule that treats all parameters alike has the codes of its
            first part.
    """
    sizes = [_sizes(values) for values in parts]
    scale = float(max(size.max() for size in sizes))
    before = quantize(parts[0], scale or 1.0, sizes[0])
    different = [before]
    for i in range(1, len(parts)):
        if parts[i] is not parts[i - 1]:
            after = quantize(parts[i], scale or 1.0, sizes[i])
            different += [b"part %d" % i, after] if after != before else []
            before = after
    direction = _hash(*different)
    return _hash(direction, b"%.5e" % scale).hex(), direction.hex()


def shape_code(values: Array) -> bytes:
    """Return a code of a flat output that ignores a common factor and its sign."""
    size = _sizes(values)
    scale = float(size.max())
    if scale:
        scale *= np.sign(values[np.argmax(size > 1e-3 * scale)])
    return _hash(quantize(values, scale or 1.0, size))
