"""The interface of methods that compute outputs and gradients of all copies of a stack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from optsmith.task import ModuleTask, TensorBatches


@dataclass(frozen=True, slots=True)
class Feed:
    """The batches of one step. Consecutive copies with the same seed share a batch.

    Attributes:
        copies: Number of copies per batch.
        inputs: The inputs, with a leading dimension for the batches.
        targets: The targets, with a leading dimension for the batches.
    """

    copies: tuple[int, ...]
    inputs: Tensor
    targets: Tensor

    def by_copy(self, values: Tensor) -> Tensor:
        """Return inputs or targets with a leading dimension for the copies."""
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
    """Return a function from a step, counted from 1, to its batches; valid until the next call."""
    shared = [(seed, len(list(group))) for seed, group in groupby(seeds)]
    copies = tuple(count for _, count in shared)
    gather = data.train_side_by_side([seed for seed, _ in shared], steps, device)
    return lambda step: Feed(copies, *gather(step))


Weights = dict[str, Tensor]
"""Stacked parameters or buffers by name, each with a leading dimension for the copies."""


class Gradients(ABC):
    """Computes the losses, gradients and outputs of all copies of one module.

    The results equal those of autograd for each copy alone, up to rounding; `check_stack` verifies
    this before a stack is used.
    """

    @classmethod
    @abstractmethod
    def of(cls, task: ModuleTask, module: nn.Module) -> Gradients | None:
        """Return an instance for a task's module; None if the module is not supported."""

    @abstractmethod
    def __call__(
        self, weights: Weights, buffers: Weights, feed: Feed
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the loss of each copy, and the gradients in the order of the weights.

        Buffers such as running means are updated in place.
        """

    @abstractmethod
    def outputs(self, weights: Weights, buffers: Weights, inputs: Tensor) -> Any:
        """Return the outputs of all copies for the same inputs, in evaluation mode."""
