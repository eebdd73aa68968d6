"""The weights of a stack of model copies, with their gradients and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from optsmith.task import ModuleTask, seeded
from optsmith.training.stacked._columns import Columns
from optsmith.training.stacked._gradients import Feed, Gradients
from optsmith.training.stacked._perceptron import Perceptron
from optsmith.training.stacked._vmapped import Vmapped

SMALL = 1 << 12
"""Parameters of up to this many elements share a matrix, to reduce the number of calls."""

WAYS: tuple[type[Gradients], ...] = (Perceptron, Vmapped)
"""Methods to compute gradients; the first that supports a module is used."""


class Copies:
    """Copies of a task's model, each initialized with its seed as in plain training.

    The parameters are stored as matrices with one row per copy, so that optimizers process few
    large tensors; the model uses views of them.

    Args:
        task: The task, which creates the model.
        seeds: The seed of each copy.
        device: The device of the copies.

    Attributes:
        module: A module with the task's architecture, whose weights are overwritten as needed.
        matrices: The parameters.
        columns: The layout of each matrix.
        weights: Views of the parameters by name, each with a leading dimension for the copies.
        buffers: The buffers by name, each with a leading dimension for the copies.
    """

    def __init__(self, task: ModuleTask, seeds: Sequence[int], device: torch.device) -> None:
        models = {}
        for seed in dict.fromkeys(seeds):
            with seeded(seed, device):
                models[seed] = task.make(device).train()
        self.module: nn.Module = models[seeds[0]]
        self._gradients = next(way for kind in WAYS if (way := kind.of(task, self.module)))
        self._shapes = {name: p.shape for name, p in self.module.named_parameters()}
        shapes = [tuple(shape) for shape in self._shapes.values()]
        sizes = [shape.numel() for shape in self._shapes.values()]
        small = [i for i, size in enumerate(sizes) if size <= SMALL]
        groups = [[i] for i in range(len(sizes)) if i not in small] + ([small] if small else [])
        self.columns = [Columns(tuple(g), tuple(shapes[i] for i in g)) for g in groups]
        rows = {
            seed: [p.detach().reshape(1, -1) for p in model.parameters()]
            for seed, model in models.items()
        }
        self.matrices = [
            torch.cat([torch.cat([rows[seed][i] for i in g], dim=1) for seed in seeds])
            for g in groups
        ]
        states = {seed: dict(model.named_buffers()) for seed, model in models.items()}
        self.buffers = {
            name: torch.stack([states[seed][name] for seed in seeds]) for name in states[seeds[0]]
        }
        self._view()

    def __len__(self) -> int:
        return len(self.matrices[0])

    def _view(self) -> None:
        names, shapes = list(self._shapes), list(self._shapes.values())
        views: dict[int, Tensor] = {}
        for matrix, columns in zip(self.matrices, self.columns, strict=True):
            pieces = torch.split(matrix, columns.sizes, dim=1)
            for i, piece in zip(columns.parameters, pieces, strict=True):
                views[i] = piece.view(len(matrix), *shapes[i]).detach().requires_grad_()
        self.weights = {name: views[i] for i, name in enumerate(names)}

    def keep(self, rows: Sequence[int]) -> None:
        """Remove all copies except these."""
        index = torch.tensor(list(rows), device=self.matrices[0].device)
        self.matrices = [matrix[index] for matrix in self.matrices]
        self.buffers = {name: buffer[index] for name, buffer in self.buffers.items()}
        self._view()

    def gradients(self, feed: Feed) -> tuple[Tensor, list[Tensor]]:
        """Return the loss of each copy, and the gradients in the layout of the matrices."""
        losses, by_weight = self._gradients(self.weights, self.buffers, feed)
        flat = [g.reshape(len(self), -1) for g in by_weight]
        together = [
            flat[c.parameters[0]]
            if len(c.parameters) == 1
            else torch.cat([flat[i] for i in c.parameters], dim=1)
            for c in self.columns
        ]
        return losses, together

    def outputs(self, inputs: Tensor, rows: slice) -> Any:
        """Return the outputs of some copies for the same inputs, in evaluation mode."""
        weights, buffers = (
            {name: tensor[rows] for name, tensor in tensors.items()}
            for tensors in (self.weights, self.buffers)
        )
        return self._gradients.outputs(weights, buffers, inputs)

    @torch.no_grad()
    def model(self, row: int) -> nn.Module:
        """Return `module` with the weights and buffers of one copy."""
        for name, p in self.module.named_parameters():
            p.copy_(self.weights[name][row])
        for name, buffer in self.module.named_buffers():
            buffer.copy_(self.buffers[name][row])
        return self.module
