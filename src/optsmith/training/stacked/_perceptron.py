"""Gradients of a stack of multi-layer perceptrons, with an explicit backward pass.

Activations and their gradients have the shape (copy, feature, example). The first layer of all
copies that share a batch is then a single matrix product, and so is its gradient, where vmap would
multiply copy by copy. The overhead of autograd is significant for such small models, so it is used
only for less common activations and losses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from optsmith._torch import has_forward_hooks, relu_backward, sigmoid_backward, tanh_backward
from optsmith.task import ModuleTask, TensorBatches
from optsmith.training.stacked._gradients import Feed, Gradients, Weights
from optsmith.training.stacked._losses import slopes_of

ELEMENTWISE = (
    *(nn.CELU, nn.ELU, nn.GELU, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.Identity),
    *(nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.ReLU, nn.ReLU6, nn.SELU, nn.Sigmoid, nn.SiLU),
    *(nn.Softplus, nn.Softsign, nn.Tanh),
)
"""Element-wise layers, which work on activations in any layout."""

_BY_OUTPUT: dict[type[nn.Module], tuple[Callable[[Tensor], Tensor], Callable[..., Tensor]]] = {
    nn.ReLU: (torch.relu, relu_backward),
    nn.Sigmoid: (torch.sigmoid, sigmoid_backward),
    nn.Tanh: (torch.tanh, tanh_backward),
}
"""Forward and backward functions of common activations, without autograd."""

Back = Callable[[Tensor], Tensor]
"""A function from the gradient of a layer's output to the gradient of its input."""


def is_perceptron(module: nn.Module, input_dimensions: int) -> bool:
    """Return whether a module is a `Sequential` that `Perceptron` supports."""
    layers = list(module.children())  # without repeated layers, so its length shows them
    if type(module) is not nn.Sequential or len(layers) < len(module):
        return False
    if layers and type(layers[0]) is nn.Flatten:
        flat = layers[0].start_dim == 1 and layers[0].end_dim == -1
        layers = layers[1:]
    else:
        flat = input_dimensions == 2
    # Hooks would get unexpected shapes.
    hooked = has_forward_hooks(module)
    return (
        flat
        and not hooked
        and bool(layers)
        and type(layers[0]) is nn.Linear
        and all(type(m) is nn.Linear or type(m) in ELEMENTWISE for m in layers)
    )


class Perceptron(Gradients):
    """The gradients of copies of a perceptron.

    Args:
        loss: The loss, a function of outputs and targets.
        targets: The targets of all data.
        module: A `Sequential` of `Linear` and element-wise layers, optionally after a `Flatten`.
    """

    def __init__(
        self, loss: Callable[[Any, Any], Tensor], targets: Tensor, module: nn.Module
    ) -> None:
        self._layers = [(n, m) for n, m in module.named_children() if type(m) is not nn.Flatten]
        self._slopes = slopes_of(loss, targets)

    @classmethod
    def of(cls, task: ModuleTask, module: nn.Module) -> Perceptron | None:
        """Return an instance for a perceptron on tensors in memory; None otherwise."""
        data = task.data
        if not isinstance(data, TensorBatches) or not is_perceptron(module, data.inputs.ndim):
            return None
        return cls(task.loss, data.targets, module)

    @torch.no_grad()
    def __call__(
        self, weights: Weights, buffers: Weights, feed: Feed
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the loss of each copy, and the gradients of the weights."""
        gradients: Weights = {}
        values, backs = self._forward(weights, gradients, feed)
        losses, slopes = self._slopes(values, feed)
        for back in reversed(backs):
            slopes = back(slopes)
        return losses, [gradients[name] for name in weights]

    @torch.no_grad()
    def outputs(self, weights: Weights, buffers: Weights, inputs: Tensor) -> Tensor:
        """Return the outputs of all copies for the same inputs."""
        copies = (len(next(iter(weights.values()))),)
        feed = Feed(copies, inputs.unsqueeze(0), inputs)  # the forward pass needs no targets
        return self._forward(weights, {}, feed)[0].transpose(1, 2)

    def _forward(
        self, weights: Weights, gradients: Weights, feed: Feed
    ) -> tuple[Tensor, list[Back]]:
        """Return the outputs (copy, output, example), and the backward functions of the layers."""
        backs: list[Back] = []
        values = feed.inputs  # the first layer reads them from the feed
        for place, (name, layer) in enumerate(self._layers):
            if isinstance(layer, nn.Linear):
                run = _Linear(name, weights, gradients, feed if place == 0 else None)
                values = run.forward(values)
                backs.append(run.back)
            else:
                values, back = _elementwise(layer, values)
                backs.append(back)
        return values, backs


class _Linear:
    """Forward and backward pass of a linear layer for all copies.

    Args:
        name: Name of the layer.
        weights: All weights.
        gradients: Dictionary that receives the layer's gradients.
        feed: The batches, for the first layer, which needs no gradient of its input.
    """

    def __init__(self, name: str, weights: Weights, gradients: Weights, feed: Feed | None) -> None:
        self._names = f"{name}.weight", f"{name}.bias"
        self._weight, self._bias = weights[self._names[0]], weights.get(self._names[1])
        self._gradients, self._feed = gradients, feed

    def forward(self, values: Tensor) -> Tensor:
        weight, bias = self._weight, self._bias
        self._values = values
        if self._feed:
            first = _first(weight, self._feed)
            return first if bias is None else first.add_(bias.unsqueeze(-1))
        if bias is None:
            return torch.bmm(weight, values)
        return torch.baddbmm(bias.unsqueeze(-1), weight, values)

    def back(self, slopes: Tensor) -> Tensor:
        weight, bias = self._names
        if self._bias is not None:
            self._gradients[bias] = slopes.sum(dim=-1)
        if self._feed:
            self._gradients[weight] = _first_gradient(slopes, self._feed)
            return slopes
        self._gradients[weight] = torch.bmm(slopes, self._values.transpose(1, 2))
        return torch.bmm(self._weight.transpose(1, 2), slopes)


def _elementwise(layer: nn.Module, values: Tensor) -> tuple[Tensor, Back]:
    """Return the outputs of an element-wise layer, and its backward function."""
    if type(layer) in _BY_OUTPUT:
        forward, backward = _BY_OUTPUT[type(layer)]
        known = forward(values)
        return known, lambda slopes: backward(slopes, known)
    with torch.enable_grad():
        leaf = values.detach().requires_grad_()
        # In-place operations are not allowed on a leaf.
        outputs = layer(leaf.clone() if getattr(layer, "inplace", False) else leaf)

    def back(slopes: Tensor) -> Tensor:
        return torch.autograd.grad(outputs, leaf, slopes)[0]

    return outputs.detach(), back


def _first(weight: Tensor, feed: Feed) -> Tensor:
    """Return the first layer without bias, by one matrix product per batch."""
    copies, width, features = weight.shape
    batches = feed.inputs.flatten(2)
    if len(batches) == 1:
        return (weight.reshape(-1, features) @ batches[0].T).view(copies, width, -1)
    if len(set(feed.copies)) == 1:
        by_batch = weight.reshape(len(batches), -1, features)
        return torch.bmm(by_batch, batches.transpose(1, 2)).view(copies, width, -1)
    pairs = zip(torch.split(weight, list(feed.copies)), batches, strict=True)
    return torch.cat([(w.flatten(0, 1) @ x.T).unflatten(0, (-1, width)) for w, x in pairs])


def _first_gradient(slopes: Tensor, feed: Feed) -> Tensor:
    """Return the gradient of the first layer's weights, by one matrix product per batch."""
    copies, width, examples = slopes.shape
    batches = feed.inputs.flatten(2)
    if len(batches) == 1:
        return (slopes.reshape(-1, examples) @ batches[0]).view(copies, width, -1)
    if len(set(feed.copies)) == 1:
        by_batch = slopes.reshape(len(batches), -1, examples)
        return torch.bmm(by_batch, batches).view(copies, width, -1)
    pairs = zip(torch.split(slopes, list(feed.copies)), batches, strict=True)
    return torch.cat([(s.flatten(0, 1) @ x).unflatten(0, (-1, width)) for s, x in pairs])
