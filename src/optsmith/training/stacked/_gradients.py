"""The contract of a way to compute the gradients of a stack of model copies."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from optsmith.task import ModuleTask
from optsmith.training.stacked._feed import Feed

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
