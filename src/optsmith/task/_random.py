"""Functions that save, restore and seed torch's random generators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

RandomState = list[Tensor]
"""The state of the CPU generator, followed by that of the CUDA device, if any."""


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's generators while the block runs, and restore them afterwards."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def random_state(device: torch.device) -> RandomState:
    """Return the state of the generators used by a run on a device."""
    on_device = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
    return [torch.get_rng_state(), *on_device]


def set_random_state(state: RandomState, device: torch.device) -> None:
    """Restore a state returned by `random_state`."""
    torch.set_rng_state(state[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[1], device)
