"""Vectorised random numbers, bit-identical with those of `rules.uniform`.

On a CPU they are computed with NumPy: torch has no unsigned 32-bit arithmetic, and its 64-bit
products are slow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from optsmith.rules import hashed, uniform

_WRAP = 1 << 32


def uniforms(keys: Sequence[int], step: int, start: int, end: int, device: torch.device) -> Tensor:
    """Return the float32 random numbers of elements start … end, one row per key."""
    if device.type != "cpu":
        elements = torch.arange(start, end, device=device)
        return torch.stack([uniform(key, step, elements) for key in keys])
    numbers = np.arange(end - start, dtype=np.uint32) + np.uint32(start % _WRAP)
    bits = hashed(np.array(keys, dtype=np.uint32)[:, None], step, numbers)
    # The 24-bit numbers are viewed as signed, because NumPy converts these to floats faster.
    return torch.from_numpy(bits.view(np.int32).astype(np.float32) * np.float32(2.0**-24))
