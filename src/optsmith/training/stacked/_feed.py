"""What a stack of model copies is fed: the batches of its seeds, gathered together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from optsmith.task import TensorBatches


@dataclass(frozen=True, slots=True)
class Feed:
    """The batches of one step; consecutive copies share one.

    Attributes:
        copies: How many copies see each batch.
        inputs: The inputs, with a first dimension for the batches.
        targets: The targets likewise.
    """

    copies: tuple[int, ...]
    inputs: Tensor
    targets: Tensor

    def by_copy(self, values: Tensor) -> Tensor:
        """Return inputs or targets with a first dimension for the copies, copied if need be."""
        if len(self.copies) == 1:
            return values.expand(*self.copies, *values.shape[1:])
        if len(self.copies) == sum(self.copies):
            return values
        if len(set(self.copies)) == 1:
            return values.repeat_interleave(self.copies[0], dim=0)
        pairs = zip(values, self.copies, strict=True)
        return torch.cat([one.expand(count, *one.shape) for one, count in pairs])


def feeds(
    data: TensorBatches, seeds: Sequence[int], steps: int, device: torch.device
) -> Callable[[int], Feed]:
    """Return what copies with these seeds are fed at a step, from 1; valid until the next."""
    shared = [(seed, len(list(group))) for seed, group in groupby(seeds)]
    copies = tuple(count for _, count in shared)
    gather = data.train_side_by_side([seed for seed, _ in shared], steps, device)
    return lambda step: Feed(copies, *gather(step))
