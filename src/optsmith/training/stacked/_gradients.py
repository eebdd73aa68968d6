"""The gradients of a stack of model copies: by vmap, or by hand for multi-layer perceptrons."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from optsmith.task import ModuleTask
from optsmith.task._batches import TensorBatches
from optsmith.training.stacked._copies import Gradients, Weights
from optsmith.training.stacked._feed import Feed
from optsmith.training.stacked._losses import losses_of
from optsmith.training.stacked._perceptron import Perceptron, is_perceptron


def gradients_of(task: ModuleTask, module: nn.Module) -> Gradients:
    """Return how the gradients of a stack of copies of `module` are computed."""
    if isinstance(task.data, TensorBatches) and is_perceptron(module, task.data.inputs.ndim):
        return Perceptron(task.loss, task.data.targets, module)
    return Vmapped(task, module)


class Vmapped:
    """Any module that vmap can run.

    Args:
        task: Has the loss.
        module: The module.
    """

    def __init__(self, task: ModuleTask, module: nn.Module) -> None:
        self.module = module
        self._losses = losses_of(task.loss)
        self._shared = vmap(self._one, in_dims=(0, 0, None))
        self._own = vmap(self._one, in_dims=(0, 0, 0))

    def _one(self, weights: Weights, buffers: Weights, inputs: Tensor) -> Any:
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
        # The sum's gradient is each loss's own: no copy's weights are in another's loss.
        return losses.detach(), list(torch.autograd.grad(losses.sum(), list(weights.values())))
