"""The random numbers of many elements at once: those of `rules._noise`, to the bit, but sooner.

torch has no unsigned 32-bit arithmetic, and 64-bit products are slow: on a CPU they would be most
of what `drop` costs. NumPy has it, and wraps by definition.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optsmith.rules._noise import mix, uniform

_MASK = 0xFFFFFFFF
_STRIDE = 0x1E3779B9

Bits = NDArray[np.uint32]


def uniforms(keys: Sequence[int], step: int, start: int, end: int, device: torch.device) -> Tensor:
    """Return the float32 numbers of elements start … end, a row for each key."""
    if device.type != "cpu":
        elements = torch.arange(start, end, device=device)
        return torch.stack([uniform(key, step, elements) for key in keys])
    at = [mix((key + step * _STRIDE) & _MASK) for key in keys]
    return torch.from_numpy(_hashed(np.array(at, dtype=np.uint32), _strides(start, end)))


def _strides(start: int, end: int) -> Bits:
    """Return what tells elements apart."""
    strides = np.arange(end - start, dtype=np.uint32)
    strides += np.uint32(start & _MASK)
    strides *= np.uint32(_STRIDE)
    return strides


def _hashed(at: Bits, strides: Bits) -> NDArray[np.float32]:
    bits = at[:, None] ^ strides
    spare = np.empty_like(bits)
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        bits ^= np.right_shift(bits, shift, out=spare)
        bits *= np.uint32(factor)
    bits ^= np.right_shift(bits, 15, out=spare)
    bits >>= 8
    # 24 bits are the same signed, from which there is a quick way to floats.
    numbers = bits.view(np.int32).astype(np.float32)
    numbers *= np.float32(2.0**-24)
    return numbers
