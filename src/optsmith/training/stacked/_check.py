"""Check that stacked training of a task gives the same numbers as plain training."""

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
from optsmith.training.stacked._evaluation import HeldOut
from optsmith.training.stacked._gradients import feeds
from optsmith.training.stacked._perceptron import Perceptron

TOLERANCE = 1e-4
"""Relative tolerance for rounding differences from plain training."""

LR = 0.1
"""Learning rate of the two steps that are compared."""

_DESCENT = Rule.parse("g")


class NotStackableError(Exception):
    """The runs of a task cannot be stacked; the message says why."""


Kind = Literal["perceptron", "convolutions", "tokens", "other"]
"""The type of a model, as far as it affects the speed of stacks; "tokens" has embeddings."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory and type of one copy of a model.

    Attributes:
        parameters: Bytes of parameters.
        activations: Bytes that the forward pass saves for the backward pass.
        kind: The type of the model.
    """

    parameters: int
    activations: int
    kind: Kind


def footprint(task: Task, device: torch.device) -> Footprint:
    """Return the memory and type of one copy of a task's model.

    Raises:
        NotStackableError: Stacks do not support the task or its model.
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
    layers = list(model.modules())
    if any(isinstance(m, nn.Conv1d | nn.Conv2d | nn.Conv3d) for m in layers):
        return "convolutions"
    return "tokens" if any(isinstance(m, nn.Embedding) for m in layers) else "other"


def check_stack(task: Task, device: torch.device) -> None:
    """Check that stacked training of a task gives the same numbers as plain training.

    Raises:
        NotStackableError: The numbers differ, or vmap cannot run the model.
    """
    stackable = as_stackable(task)
    try:
        with warnings.catch_warnings():
            # vmap warns when it falls back to a loop over the copies.
            warnings.filterwarnings("error", message="There is a performance drop")
            # One batch for all copies, one per copy, shared evenly, shared unevenly.
            for seeds in ([0, 0], [0, 1], [0, 0, 1, 1], [0, 0, 1]):
                _compare(stackable, seeds, device)
    except NotStackableError:
        raise
    except Exception as error:  # a user's model may raise anything under vmap
        line = str(error).strip().partition("\n")[0]
        raise NotStackableError(
            f"vmap cannot run the model ({type(error).__name__}: {line})"
        ) from error


def as_stackable(task: Task) -> ModuleTask:
    """Return the task, whose training loop and data are checked to be supported by stacks.

    Raises:
        NotStackableError: They are not supported.
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
        raise NotStackableError("the parameters are not all in single or all in double precision")
    if len(list(module.named_parameters(remove_duplicate=False))) > len(params):
        raise NotStackableError("layers of the model share parameters")
    if not all(p.requires_grad for p in params):
        raise NotStackableError("some parameters of the model are frozen")


def _compare(task: ModuleTask, seeds: Sequence[int], device: torch.device) -> None:
    """Raise an error if two steps of stacked training differ from plain training."""
    data = task.data
    assert isinstance(data, TensorBatches)  # noqa: S101 - checked by `as_stackable`
    feed = feeds(data, seeds, 2, device)
    copies = Copies(task, seeds, device)
    models = [_model(task, seed, device) for seed in seeds]
    plain = [list(data.train(Run(_DESCENT, LR, seed, 2, device=device))) for seed in seeds]
    for step in (1, 2):
        losses, gradients = copies.gradients(feed(step))
        if losses.shape != (len(seeds),):
            raise NotStackableError("the loss is not a scalar")
        for row, (batches, model) in enumerate(zip(plain, models, strict=True)):
            loss = _plain_step(task, model, batches[step - 1])
            rows = [_row(model, columns.parameters) for columns in copies.columns]
            _must_match([losses[row]], [loss])
            _must_match([gradient[row] for gradient in gradients], rows)
            held = [buffer[row] for buffer in copies.buffers.values()]
            _must_match(held, list(model.buffers()))
        for matrix, gradient in zip(copies.matrices, gradients, strict=True):
            matrix.sub_(gradient, alpha=LR)
    if task.measured is not None:
        run = Run(_DESCENT, LR, 0, 2, device=device)
        signals = [torch.tensor(task.check(model, run)) for model in models]
        stacked = HeldOut(task).signals(copies, run)
        _must_match([torch.tensor(stacked)], [torch.stack(signals)])


def _plain_step(task: ModuleTask, model: nn.Module, batch: Batch) -> Tensor:
    """Take a step of gradient descent and return the loss before it."""
    model.zero_grad()
    loss = task.loss(model(batch[0]), batch[1])
    loss.backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is None:
                raise NotStackableError("some parameters of the model are not used")
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
            raise NotStackableError("stacked training gives different numbers than plain training")
