"""The state of torch's random generators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

RandomState = list[Tensor]
"""The state of the CPU's generator, and of the device's if it is a GPU."""


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's generators, as every run finds them, and restore them afterwards."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def random_state(device: torch.device) -> RandomState:
    """Return the state of the generators that a run on a device uses."""
    on_device = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
    return [torch.get_rng_state(), *on_device]


def set_random_state(state: RandomState, device: torch.device) -> None:
    """Put back what `random_state` returned."""
    torch.set_rng_state(state[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[1], device)
