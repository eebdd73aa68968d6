"""Counter-based random numbers: a hash of key, step and element index.

There is no generator state, so `drop` masks are the same in eager, compiled, stacked, exported and
resumed runs, independent of the order of evaluation.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_MASK = 0xFFFFFFFF


def mix(x: Any) -> Any:
    """Return the hash of 32-bit numbers: an int, an int64 tensor, or a uint32 array (which wraps).

    Factors below 2^31 keep every product below 2^63, so there is no overflow in any back end.
    """
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & _MASK
    x = ((x ^ (x >> 15)) * 0x735A2D97) & _MASK
    return x ^ (x >> 15)


def stream_key(seed: int, node: int, parameter: int) -> int:
    """Return the key of one random operator (by its index in the rule) on one parameter."""
    key = mix(seed & _MASK) ^ ((seed >> 32) & _MASK)
    return int(mix((mix((key + node) & _MASK) + parameter) & _MASK))


def hashed(key: Any, step: Any, elements: Any) -> Any:
    """Return 24 random bits per item of `elements`, as the same type."""
    at = mix((key + (step * 0x1E3779B9 & _MASK)) & _MASK)
    return mix(((elements * 0x1E3779B9) & _MASK) ^ at) >> 8


def uniform(key: Tensor | int, step: Tensor | int, elements: Tensor) -> Tensor:
    """Return uniform float32 numbers in [0, 1), one per index in `elements` (int64).

    They have 24 bits and are exact in float32, so comparisons agree in every precision.
    """
    bits: Tensor = hashed(key, step, elements)
    return bits.float() * 2.0**-24


def noise_source() -> str:
    """Return the source of these functions, for exported files."""
    functions = (mix, stream_key, hashed, uniform)
    return f"_MASK = {_MASK:#X}\n\n\n" + "\n\n".join([inspect.getsource(f) for f in functions])
