"""Observation of a short training run: its optimizers, and the shapes that enter its loss."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.overrides import TorchFunctionMode

from optsmith.task import ModuleTask, Run, Task

MOST_COPIED = 1 << 20
"""Maximum number of weights that are copied to see whether they change."""

BROADCASTING = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss",
                "poisson_nll_loss")  # fmt: skip
"""Losses of torch that broadcast, and of which only a mean is seen."""


SUBTRACTIONS = ("sub", "subtract", "rsub", "__sub__", "__rsub__")


class OptimizerWatch:
    """Records what a run does with its optimizers.

    Args:
        run: The run, which has not started.

    Attributes:
        steps: Number of steps of the optimizers from `run.optimizer`.
        others: Names of other optimizers that took steps.
        has_gradients: Whether a step saw a gradient.
        has_nonzero_gradients: Whether a step saw a gradient that is not zero.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.steps = 0
        self.others: list[str] = []
        self.has_gradients = self.has_nonzero_gradients = False
        self._before: list[tuple[Tensor, Tensor]] = []
        self._should_move = False

    @contextmanager
    def active(self) -> Iterator[None]:
        """Watch all steps in the block."""
        before = register_optimizer_step_pre_hook(self._before_step)
        after = register_optimizer_step_post_hook(self._after_step)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    @property
    def is_stuck(self) -> bool:
        """Whether no weight differs from its first value, although gradients should move it."""
        moved = any(not torch.equal(p.detach(), first) for p, first in self._before)
        return self._should_move and not moved

    def _is_own(self, optimizer: Optimizer) -> bool:
        return any(optimizer is built for built in self._run.built)

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._before or not self._is_own(optimizer):
            return
        params = sorted(_params(optimizer), key=lambda p: p.numel())
        count = 0
        for p in params:
            count += p.numel()
            if count > MOST_COPIED and self._before:
                break
            self._before.append((p, p.detach().clone()))

    # After the step, because `step(closure)` computes the gradients.
    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not self._is_own(optimizer):
            self.others.append(type(optimizer).__name__)
            return
        self.steps += 1
        gradients = [p.grad for p in _params(optimizer) if p.grad is not None]
        self.has_gradients = self.has_gradients or bool(gradients)
        self.has_nonzero_gradients = self.has_nonzero_gradients or any(map(_any, gradients))
        self._should_move = self._should_move or any(
            p.grad is not None and not torch.equal(first - self._run.lr * p.grad, first)
            for p, first in self._before
        )


def _params(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _any(gradient: Tensor) -> bool:
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    return bool(values.count_nonzero())


# --- broadcasting ---------------------------------------------------------------------------------

Shapes = tuple[tuple[int, ...], tuple[int, ...]]
"""Shapes of outputs and targets."""


def crossed(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shape of two tensors that broadcast to more elements than either has.

    None for shapes that are equal, that do not broadcast, or of which only one is expanded: an
    output per quantile against one target, for example, is often meant.
    """
    # Not torch.broadcast_shapes, which imports SymPy: seconds.
    pairs = list(zip_longest(reversed(one), reversed(other), fillvalue=1))
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        return None
    both = tuple(a if b == 1 else b for a, b in reversed(pairs))
    return both if math.prod(both) > max(math.prod(one), math.prod(other)) else None


class LossWatch:
    """A loss that records whether its targets broadcast against its outputs.

    Shapes alone do not show it: a loss may reshape its arguments. So an operation counts only if
    its arguments have the shapes of output and target, one of them depends on parameters and the
    other does not, and its result has the shape of both broadcast.

    Args:
        loss: The loss.

    Attributes:
        found: Shapes of output and target that broadcast; None if there were none.
    """

    def __init__(self, loss: Callable[[Any, Any], Any]) -> None:
        self._loss = loss
        self.found: Shapes | None = None

    def __call__(self, output: Any, target: Any) -> Any:
        """Return the loss."""
        tensors = isinstance(output, Tensor) and isinstance(target, Tensor)
        if not tensors or crossed(output.shape, target.shape) is None:
            return self._loss(output, target)
        shapes = tuple(output.shape), tuple(target.shape)
        with _BroadcastMode(shapes) as mode:
            value = self._loss(output, target)
        if mode.found:
            self.found = shapes
        return value


class _BroadcastMode(TorchFunctionMode):
    """Looks for an operation that broadcasts two shapes."""

    def __init__(self, shapes: Shapes) -> None:
        super().__init__()
        self._shapes, self._both = shapes, crossed(*shapes)
        self.found = False

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [a for a in (*args, *(kwargs or {}).values()) if isinstance(a, Tensor)][:2]
        if len(tensors) == 2 and sorted(self._shapes) == sorted(tuple(t.shape) for t in tensors):
            broadcast = isinstance(result, Tensor) and tuple(result.shape) == self._both
            broadcast = broadcast or getattr(func, "__name__", "") in BROADCASTING
            one, other = tensors
            self.found = self.found or (broadcast and one.requires_grad != other.requires_grad)
        return result


class SubtractionWatch(TorchFunctionMode):
    """Looks for outputs of shape (n, 1) minus targets of shape (n,), or the reverse, in any code.

    A loop of the user has no loss that could be watched. Errors are computed by subtraction; the
    output depends on parameters but is not one, and the target does not depend on them.

    Args:
        found: List to which the shapes (output, target) are appended.
    """

    def __init__(self, found: list[Shapes]) -> None:
        super().__init__()
        self._found = found

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in SUBTRACTIONS and len(args) > 1:
            tensors = [a for a in args[:2] if isinstance(a, Tensor)]
            outputs = [t for t in tensors if t.requires_grad and not t.is_leaf]
            targets = [t for t in tensors if not t.requires_grad]
            if len(outputs) == len(targets) == 1:
                shapes = tuple(outputs[0].shape), tuple(targets[0].shape)
                column, row = sorted(shapes, key=len, reverse=True)
                if len(row) == 1 and row[0] > 1 and column == (*row, 1):
                    self._found.append(shapes)
        return result


def with_watched_loss(task: Task) -> tuple[Task, LossWatch | None]:
    """Return a task whose loss is watched, and the watch; the task itself if it has no loss."""
    if not isinstance(task, ModuleTask):
        return task, None
    watch = LossWatch(task.loss)
    watched = copy.copy(task)
    watched.loss = watch
    return watched, watch


@contextmanager
def warned_shapes(found: list[Shapes]) -> Iterator[None]:
    """Append the shapes (output, target) of torch's warnings of targets that broadcast.

    The warnings of losses in the user's own loops are seen in this way. Others are issued again.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        text = str(warning.message)
        parts = text.split("torch.Size(")
        if text.startswith("Using a target size") and len(parts) == 3:
            target, output = (_shape(part) for part in parts[1:])
            if crossed(output, target) is not None:
                found.append((output, target))
                continue
        warnings.warn_explicit(
            warning.message,
            warning.category,
            warning.filename,
            warning.lineno,
            source=warning.source,
        )


def _shape(text: str) -> tuple[int, ...]:
    """Return the shape at the start of a text such as `[64, 1]) that`."""
    inner = text[text.index("[") + 1 : text.index("]")]
    return tuple(int(size) for size in inner.split(",") if size.strip())
