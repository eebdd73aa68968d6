"""Whether the runs of a task can be trained as a stack: found out by training a few steps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from optsmith.rules import Rule
from optsmith.task import ModuleTask, Run, Task
from optsmith.task._batches import Batch, TensorBatches
from optsmith.training._plain import seeded
from optsmith.training.stacked._copies import Copies
from optsmith.training.stacked._feed import feeds
from optsmith.training.stacked._gradients import gradients_of

MOST_PARAMETERS = 1_000_000
MOST_ACTIVATIONS = 1 << 24
"""Parameters, and bytes of activations, of a model on a CPU: with more, stacks are not even tried.

Copies of 784-640-10, half as large, gain a sixth in stacks: benchmarks/results/scaling.txt.
"""

TOLERANCE = 1e-4
"""Difference to the plain loop, relative to the largest entry, that is put down to rounding."""

_BUSY = "the model is large enough to keep a CPU busy"

LR = 0.1
"""Learning rate between the two steps that are compared."""

_DESCENT = Rule.parse("g")


class NotStackableError(Exception):
    """A task that has to be trained one run at a time; the message says why."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one copy takes.

    Attributes:
        parameters: Bytes of parameters.
        activations: Bytes that the forward pass keeps for the backward pass.
    """

    parameters: int
    activations: int


def examine(task: Task, device: torch.device) -> Footprint:
    """Return what one copy of a task's model takes.

    Raises:
        NotStackableError: The runs of the task cannot be trained as a stack, or it would not pay.
    """
    task = as_stackable(task)
    try:
        _inspect(_model(task, 0, device), device)
        with warnings.catch_warnings():
            # vmap warns when all it can do is a loop.
            warnings.filterwarnings("error", message="There is a performance drop")
            # One batch for all copies; one for each; and shared, evenly and unevenly.
            for seeds in ([0, 0], [0, 1], [0, 0, 1, 1], [0, 0, 1]):
                footprint = _compare(task, seeds, device)
                if device.type == "cpu" and footprint.activations > MOST_ACTIVATIONS:
                    raise NotStackableError(_BUSY)
    except NotStackableError:
        raise
    except Exception as error:  # whatever a user's model may raise when it is run by vmap
        line = str(error).strip().partition("\n")[0]
        raise NotStackableError(
            f"vmap cannot run the model ({type(error).__name__}: {line})"
        ) from error
    return footprint


def as_stackable(task: Task) -> ModuleTask:
    """Return a task whose training loop and data are of the kinds that stacks know.

    Raises:
        NotStackableError: They are not.
    """
    if not isinstance(task, ModuleTask) or type(task).start is not ModuleTask.start:
        raise NotStackableError("the task has a training loop of its own")
    if not isinstance(task.data, TensorBatches):
        raise NotStackableError("the data come from a loader, or are others in the end")
    return task


def _model(task: ModuleTask, seed: int, device: torch.device) -> nn.Module:
    with seeded(seed, device):
        return task.make(device).train()


def _inspect(module: nn.Module, device: torch.device) -> None:
    params = list(module.parameters())
    if not params:
        raise NotStackableError("the model has no parameters")
    if len({p.dtype for p in params}) > 1 or params[0].dtype not in (torch.float32, torch.float64):
        raise NotStackableError("the model is not in single or double precision throughout")
    if len(list(module.named_parameters(remove_duplicate=False))) > len(params):
        raise NotStackableError("some of the model's parameters are shared between its layers")
    if not all(p.requires_grad for p in params):
        raise NotStackableError("some of the model's parameters are frozen")
    if device.type != "cpu":
        return
    if sum(p.numel() for p in params) > MOST_PARAMETERS:
        raise NotStackableError(_BUSY)


def _compare(task: ModuleTask, seeds: Sequence[int], device: torch.device) -> Footprint:
    """Train copies for two steps, in a stack and one by one; raise when they differ."""
    data = task.data
    assert isinstance(data, TensorBatches)  # noqa: S101 - `as_stackable` has seen to it
    feed = feeds(data, seeds, 2, device)
    copies = Copies(task, seeds, device)
    way = gradients_of(task, copies.module)
    models = [_model(task, seed, device) for seed in seeds]
    plain = [list(data.train(Run(_DESCENT, LR, seed, 2, device=device))) for seed in seeds]
    for step in (1, 2):
        losses, gradients = copies.gradients(way, feed(step))
        if losses.shape != (len(seeds),):
            raise NotStackableError("the loss is not one number")
        for row, (batches, model) in enumerate(zip(plain, models, strict=True)):
            loss, footprint = _plain_step(task, model, batches[step - 1])
            rows = [_row(model, columns.parameters) for columns in copies.columns]
            _must_match([losses[row]], [loss])
            _must_match([gradient[row] for gradient in gradients], rows)
            held = [buffer[row] for buffer in copies.buffers.values()]
            _must_match(held, list(model.buffers()))
        for matrix, gradient in zip(copies.matrices, gradients, strict=True):
            matrix.sub_(gradient, alpha=LR)
    return footprint


def _plain_step(task: ModuleTask, model: nn.Module, batch: Batch) -> tuple[Tensor, Footprint]:
    """Take a step of plain descent; return the loss, and what the model took."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    model.zero_grad()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = task.loss(model(batch[0]), batch[1])
    loss.backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is None:
                raise NotStackableError("some of the model's parameters are not used")
            p.sub_(p.grad, alpha=LR)
    size = sum(p.nbytes for p in model.parameters())
    return loss.detach(), Footprint(size, sum(kept.values()))


def _row(model: nn.Module, parameters: Sequence[int]) -> Tensor:
    params = list(model.parameters())
    return torch.cat([params[i].grad.flatten() for i in parameters])  # type: ignore[union-attr]


def _must_match(stacked: Sequence[Tensor], plain: Sequence[Tensor]) -> None:
    for one, other in zip(stacked, plain, strict=True):
        one, other = one.double(), other.double()
        scale = float(other.abs().nan_to_num(0.0, 0.0, 0.0).max()) if other.numel() else 0.0
        if not torch.allclose(one, other, TOLERANCE, TOLERANCE * scale, equal_nan=True):
            raise NotStackableError("the model gives other numbers in a stack than by itself")
