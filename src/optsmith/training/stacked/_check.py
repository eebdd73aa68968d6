"""Whether the runs of a task can be trained as a stack: checked by training a few steps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from optsmith.rules import Rule
from optsmith.task import Batch, ModuleTask, Run, Task, TensorBatches, seeded
from optsmith.training.stacked._copies import Copies
from optsmith.training.stacked._gradients import feeds
from optsmith.training.stacked._perceptron import Perceptron

TOLERANCE = 1e-4
"""Largest difference from the plain loop, relative to the largest entry, taken for rounding."""

LR = 0.1
"""Learning rate between the two steps that are compared."""

_DESCENT = Rule.parse("g")


class NotStackableError(Exception):
    """A task whose runs have to be trained one at a time; the message says why."""


Kind = Literal["perceptron", "convolutions", "other"]
"""What a model consists of, as far as it matters for the speed of stacks."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The size and kind of one copy of a model.

    Attributes:
        parameters: Bytes of parameters.
        activations: Bytes that the forward pass keeps for the backward pass.
        kind: What the model consists of.
    """

    parameters: int
    activations: int
    kind: Kind


def footprint(task: Task, device: torch.device) -> Footprint:
    """Return the size and kind of one copy of a task's model.

    Raises:
        NotStackableError: The task or its model is of a kind that is not stacked.
    """
    stackable = as_stackable(task)
    model = _model(stackable, 0, device)
    _inspect(model)
    (batch,) = stackable.data.train(Run(_DESCENT, LR, 0, 1, device=device))
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        stackable.loss(model(batch[0]), batch[1])
    parameters = sum(p.nbytes for p in model.parameters())
    return Footprint(parameters, sum(kept.values()), _kind(stackable, model))


def _kind(task: ModuleTask, model: nn.Module) -> Kind:
    if Perceptron.of(task, model):
        return "perceptron"
    convolutions = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    return "convolutions" if any(isinstance(m, convolutions) for m in model.modules()) else "other"


def check_stack(task: Task, device: torch.device) -> None:
    """Check that stacks of a task's model train as the plain loop does.

    Raises:
        NotStackableError: They do not.
    """
    stackable = as_stackable(task)
    try:
        with warnings.catch_warnings():
            # vmap warns when it falls back to a loop over the copies.
            warnings.filterwarnings("error", message="There is a performance drop")
            # One batch for all copies; one per copy; and shared, evenly and unevenly.
            for seeds in ([0, 0], [0, 1], [0, 0, 1, 1], [0, 0, 1]):
                _compare(stackable, seeds, device)
    except NotStackableError:
        raise
    except Exception as error:  # whatever a user's model may raise when it is run by vmap
        line = str(error).strip().partition("\n")[0]
        raise NotStackableError(
            f"vmap cannot run the model ({type(error).__name__}: {line})"
        ) from error


def as_stackable(task: Task) -> ModuleTask:
    """Return a task whose training loop and data are of the kinds that can be stacked.

    Raises:
        NotStackableError: They are not.
    """
    if not isinstance(task, ModuleTask) or type(task).start is not ModuleTask.start:
        raise NotStackableError("the task has a training loop of its own")
    if task.not_stackable:
        raise NotStackableError(task.not_stackable)
    return task


def _model(task: ModuleTask, seed: int, device: torch.device) -> nn.Module:
    with seeded(seed, device):
        return task.make(device).train()


def _inspect(module: nn.Module) -> None:
    params = list(module.parameters())
    if not params:
        raise NotStackableError("the model has no parameters")
    if len({p.dtype for p in params}) > 1 or params[0].dtype not in (torch.float32, torch.float64):
        raise NotStackableError("the model is not in single or double precision throughout")
    if len(list(module.named_parameters(remove_duplicate=False))) > len(params):
        raise NotStackableError("some of the model's parameters are shared between its layers")
    if not all(p.requires_grad for p in params):
        raise NotStackableError("some of the model's parameters are frozen")


def _compare(task: ModuleTask, seeds: Sequence[int], device: torch.device) -> None:
    """Train copies for two steps, in a stack and one by one; raise when they differ."""
    data = task.data
    assert isinstance(data, TensorBatches)  # noqa: S101 - checked by `as_stackable`
    feed = feeds(data, seeds, 2, device)
    copies = Copies(task, seeds, device)
    models = [_model(task, seed, device) for seed in seeds]
    plain = [list(data.train(Run(_DESCENT, LR, seed, 2, device=device))) for seed in seeds]
    for step in (1, 2):
        losses, gradients = copies.gradients(feed(step))
        if losses.shape != (len(seeds),):
            raise NotStackableError("the loss is not one number")
        for row, (batches, model) in enumerate(zip(plain, models, strict=True)):
            loss = _plain_step(task, model, batches[step - 1])
            rows = [_row(model, columns.parameters) for columns in copies.columns]
            _must_match([losses[row]], [loss])
            _must_match([gradient[row] for gradient in gradients], rows)
            held = [buffer[row] for buffer in copies.buffers.values()]
            _must_match(held, list(model.buffers()))
        for matrix, gradient in zip(copies.matrices, gradients, strict=True):
            matrix.sub_(gradient, alpha=LR)


def _plain_step(task: ModuleTask, model: nn.Module, batch: Batch) -> Tensor:
    """Take a step of plain descent; return the loss."""
    model.zero_grad()
    loss = task.loss(model(batch[0]), batch[1])
    loss.backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is None:
                raise NotStackableError("some of the model's parameters are not used")
            p.sub_(p.grad, alpha=LR)
    return loss.detach()


def _row(model: nn.Module, parameters: Sequence[int]) -> Tensor:
    params = list(model.parameters())
    return torch.cat([params[i].grad.flatten() for i in parameters])  # type: ignore[union-attr]


def _must_match(stacked: Sequence[Tensor], plain: Sequence[Tensor]) -> None:
    for one, other in zip(stacked, plain, strict=True):
        one, other = one.double(), other.double()
        scale = float(other.abs().nan_to_num(0.0, 0.0, 0.0).max()) if other.numel() else 0.0
        if not torch.allclose(one, other, TOLERANCE, TOLERANCE * scale, equal_nan=True):
            raise NotStackableError("the model gives other numbers in a stack than by itself")
