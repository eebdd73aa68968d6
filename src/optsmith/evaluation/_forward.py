"""The forward pass of a stack of model copies: by vmap, or by hand for multi-layer perceptrons."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from optsmith.evaluation._copies import Forward, Weights
from optsmith.evaluation._feed import Feed
from optsmith.evaluation._losses import losses_of
from optsmith.task import ModuleTask
from optsmith.task._batches import TensorBatches

ELEMENTWISE = (
    *(nn.CELU, nn.ELU, nn.GELU, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.Identity),
    *(nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.ReLU, nn.ReLU6, nn.SELU, nn.Sigmoid, nn.SiLU),
    *(nn.Softplus, nn.Softsign, nn.Tanh),
)
"""Layers that may see a stack's values in any layout."""


def forward_of(task: ModuleTask, module: nn.Module) -> Forward:
    """Return how a stack of copies of `module` is run."""
    if isinstance(task.data, TensorBatches) and _is_perceptron(module, task.data.inputs.ndim):
        return Perceptron(task, module)
    return Vmapped(task, module)


class Vmapped:
    """Runs any module that vmap can run.

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

    def __call__(self, weights: Weights, buffers: Weights, feed: Feed) -> Tensor:
        """Return the loss of each copy."""
        if len(feed.copies) == 1:
            outputs = self._shared(weights, buffers, feed.inputs[0])
        else:
            outputs = self._own(weights, buffers, feed.by_copy(feed.inputs))
        return self._losses(outputs, feed)


class Perceptron:
    """Runs a multi-layer perceptron: the first layers of copies with one batch are one product.

    Values are (copy, feature, example): then the weights of all copies, one below the other, times
    the inputs is the first layer of all copies, and its gradient is a product of two plain
    matrices, where vmap multiplies copy by copy.

    Args:
        task: Has the loss.
        module: A `Sequential` of `Linear` and element-wise layers, perhaps after a `Flatten`.
    """

    def __init__(self, task: ModuleTask, module: nn.Module) -> None:
        self._layers = [(n, m) for n, m in module.named_children() if type(m) is not nn.Flatten]
        self._losses = losses_of(task.loss)

    def __call__(self, weights: Weights, buffers: Weights, feed: Feed) -> Tensor:
        """Return the loss of each copy."""
        values: Tensor | None = None
        for name, layer in self._layers:
            if not isinstance(layer, nn.Linear):
                values = layer(values)
                continue
            weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
            if values is None:
                values = _first(weight, feed)
                values = values if bias is None else values + bias.unsqueeze(-1)
            elif bias is None:
                values = torch.bmm(weight, values)
            else:
                values = torch.baddbmm(bias.unsqueeze(-1), weight, values)
        assert values is not None  # noqa: S101 - the first layer is linear
        return self._losses(values.transpose(1, 2), feed)


def _is_perceptron(module: nn.Module, input_dimensions: int) -> bool:
    layers = list(module.children())  # each once, so a layer that is used twice shows in the length
    if type(module) is not nn.Sequential or len(layers) < len(module):
        return False
    if layers and type(layers[0]) is nn.Flatten:
        flat = layers[0].start_dim == 1 and layers[0].end_dim == -1
        layers = layers[1:]
    else:
        flat = input_dimensions == 2
    # Hooks would see other shapes than they expect.
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())
    return (
        flat
        and not hooked
        and bool(layers)
        and type(layers[0]) is nn.Linear
        and all(type(m) is nn.Linear or type(m) in ELEMENTWISE for m in layers)
    )


def _first(weight: Tensor, feed: Feed) -> Tensor:
    """Return the first layer without bias: a product for each batch, of all copies that see it."""
    copies, width, features = weight.shape
    batches = feed.inputs.flatten(2)
    if len(batches) == 1:
        return (weight.reshape(-1, features) @ batches[0].T).view(copies, width, -1)
    if len(set(feed.copies)) == 1:
        by_batch = weight.reshape(len(batches), -1, features)
        return torch.bmm(by_batch, batches.transpose(1, 2)).view(copies, width, -1)
    pairs = zip(torch.split(weight, list(feed.copies)), batches, strict=True)
    return torch.cat([(w.flatten(0, 1) @ x.T).unflatten(0, (-1, width)) for w, x in pairs])
