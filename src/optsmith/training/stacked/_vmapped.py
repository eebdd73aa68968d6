"""Gradients of a stack of any module, by vmap."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from optsmith.task import ModuleTask
from optsmith.training.stacked._functions import OnCopies
from optsmith.training.stacked._gradients import Feed, Gradients, Weights
from optsmith.training.stacked._losses import losses_of


class Vmapped(Gradients):
    """The gradients of copies of a module, by vmap and autograd.

    Args:
        task: The task, which provides the loss.
        module: The module.
    """

    def __init__(self, task: ModuleTask, module: nn.Module) -> None:
        self.module = module
        self._losses = losses_of(task.loss)
        self._shared = vmap(self._one, in_dims=(0, 0, None))
        self._own = vmap(self._one, in_dims=(0, 0, 0))

    @classmethod
    def of(cls, task: ModuleTask, module: nn.Module) -> Vmapped:
        """Return an instance for any module; `check_stack` detects what vmap cannot run."""
        return cls(task, module)

    def _one(self, weights: Weights, buffers: Weights, inputs: Tensor) -> Any:
        with OnCopies():
            return functional_call(self.module, (weights, buffers), (inputs,))

    def __call__(
        self, weights: Weights, buffers: Weights, feed: Feed
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the loss of each copy, and the gradients of the weights."""
        if len(feed.copies) == 1:
            outputs = self._shared(weights, buffers, feed.inputs[0])
        else:
            outputs = self._own(weights, buffers, feed.by_copy(feed.inputs))
        losses = self._losses(outputs, feed)
        # Copies are independent, so the gradient of the sum is that of each loss.
        return losses.detach(), list(torch.autograd.grad(losses.sum(), list(weights.values())))

    @torch.no_grad()
    def outputs(self, weights: Weights, buffers: Weights, inputs: Tensor) -> Any:
        """Return the outputs of all copies for the same inputs, in evaluation mode."""
        self.module.eval()
        outputs = self._shared(weights, buffers, inputs)
        self.module.train()
        return outputs
