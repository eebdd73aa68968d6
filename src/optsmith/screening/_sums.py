"""Decaying sums over the steps of a trajectory, at some of the steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor


def sums(x: Tensor, steps: Sequence[int], beta: float) -> Tensor:
    """Return y[k] = beta*y[k-1] + x[k] at some steps.

    Args:
        x: One row per step.
        steps: The steps, in ascending order.
        beta: The factor per step.
    """
    if len(x) == 1:
        return x
    if 4 * len(steps) <= len(x) or len(x) <= 8:
        # A product with few rows is faster than the recursion. If a value is not finite, it would
        # spoil the steps before, and so show in the result.
        found = _powers(len(x), tuple(steps), beta) @ x
        if found.isfinite().all():
            return found
    from scipy.signal import lfilter

    values: Any = lfilter([1.0], [1.0, -beta], x.numpy(), axis=0)
    found = torch.from_numpy(values)
    return found if len(steps) == len(x) else found[list(steps)]


@lru_cache(maxsize=64)
def _powers(total: int, steps: tuple[int, ...], beta: float) -> Tensor:
    """Return the weight of each step in the sums, one row per sum."""
    ages = torch.tensor(steps)[:, None] - torch.arange(total)
    powers: Tensor = beta ** ages.clamp(min=0).double()
    return powers.where(ages >= 0, 0.0)
