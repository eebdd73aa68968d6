"""The forward pass of a stack of model copies: by vmap, or by hand for multi-layer perceptrons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from optsmith.evaluation._copies import Forward, Part, Weights
from optsmith.evaluation._losses import losses_of, repeat
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

    def __call__(self, weights: Weights, buffers: Weights, parts: Sequence[Part]) -> Tensor:
        """Return the loss of each copy."""
        if len(parts) == 1:
            outputs = self._shared(weights, buffers, parts[0].inputs)
        else:
            inputs = torch.cat([repeat(p.inputs, p.copies) for p in parts])
            outputs = self._own(weights, buffers, inputs)
        return self._losses(outputs, parts)


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

    def __call__(self, weights: Weights, buffers: Weights, parts: Sequence[Part]) -> Tensor:
        """Return the loss of each copy."""
        values: Tensor | None = None
        for name, layer in self._layers:
            if not isinstance(layer, nn.Linear):
                values = layer(values)
                continue
            weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
            if values is None:
                values = _first(weight, parts)
                values = values if bias is None else values + bias.unsqueeze(-1)
            elif bias is None:
                values = torch.bmm(weight, values)
            else:
                values = torch.baddbmm(bias.unsqueeze(-1), weight, values)
        assert values is not None  # noqa: S101 - the first layer is linear
        return self._losses(values.transpose(1, 2), parts)


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


def _first(weight: Tensor, parts: Sequence[Part]) -> Tensor:
    """Return the first layer without bias."""
    if len(parts) == 1:  # without the copy that the gradient of a split costs
        return _product(weight, parts[0].inputs)
    pieces = torch.split(weight, [p.copies for p in parts])
    return torch.cat([_product(w, p.inputs) for w, p in zip(pieces, parts, strict=True)])


def _product(weight: Tensor, inputs: Tensor) -> Tensor:
    copies, width, features = weight.shape
    return (weight.reshape(-1, features) @ inputs.flatten(1).T).view(copies, width, -1)
