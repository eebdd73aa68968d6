"""The contract of a way to compute the gradients of all copies of a stack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor, nn

from optsmith.task import ModuleTask, TensorBatches


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


Weights = dict[str, Tensor]
"""Stacked parameters or buffers by name, each with a first dimension for the copies."""


class Gradients(ABC):
    """Computes the losses and gradients of all copies of one module.

    Every way gives the numbers that autograd gives for each copy alone, up to rounding; a stack is
    compared with the plain loop before it is used.
    """

    @classmethod
    @abstractmethod
    def of(cls, task: ModuleTask, module: nn.Module) -> Gradients | None:
        """Return this way for copies of a task's module; None when it does not serve the module."""

    @abstractmethod
    def __call__(
        self, weights: Weights, buffers: Weights, feed: Feed
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the loss of each copy, and the gradients in the order of the weights.

        Buffers such as running means are updated in place.
        """
