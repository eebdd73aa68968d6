"""Calls of the functions of operators of scope "tensor", on one tensor or on a stack of copies."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optsmith._errors import RuleError
from optsmith.rules._modern_functions import ON_COPIES

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Whole:
    """The torch function of an operator, on one whole tensor; returns a tensor of its shape.

    A number is expanded to the shape. If a function of `torch.linalg` fails, such as a
    decomposition of a matrix that is not finite, the result is NaN.

    Args:
        name: The operator's name, for error messages.
        function: The operator's function; its first argument is the tensor.
    """

    name: str
    function: Callable[..., Any]

    def __call__(self, x: Tensor, *rest: Any) -> Tensor:
        """Return the operator's value."""
        import torch

        try:
            value = self.function(x, *rest)
        except _failure():
            return torch.full_like(x, torch.nan)
        return _of_shape(self.name, value, x)


@dataclass(frozen=True, slots=True)
class WholeState:
    """The state update of an operator, on one whole tensor; returns the new slots.

    Args:
        name: The operator's name, for error messages.
        update: `State.update`.
        slots: Number of slots.
        operands: Number of operands.
    """

    name: str
    update: Callable[..., Any]
    slots: int
    operands: int = 1

    def __call__(self, *args: Any) -> tuple[Tensor, ...]:
        """Return the new slots."""
        import torch

        old = args[self.operands : self.operands + self.slots]
        try:
            new = self.update(*args)
        except _failure():
            return tuple(torch.full_like(slot, torch.nan) for slot in old)
        return tuple(_of_shape(self.name, n, o) for n, o in zip(new, old, strict=True))


def _failure() -> type[Exception]:
    """Return the error class of `torch.linalg`."""
    import torch

    error: type[Exception] = torch.linalg.LinAlgError  # type: ignore[attr-defined]
    return error


def _of_shape(name: str, value: Any, like: Tensor) -> Tensor:
    import torch

    tensor: Tensor = value if isinstance(value, torch.Tensor) else like.new_tensor(float(value))
    if tensor.shape == like.shape:
        return tensor
    if tensor.ndim == 0:
        return tensor.expand(like.shape)
    raise RuleError(
        f"the operator {name} returned shape {tuple(tensor.shape)} for a tensor of shape"
        f" {tuple(like.shape)}: return a tensor of the same shape, or one number"
    )


class OverCopies:
    """A function of whole tensors, applied to stacks of copies along the first dimension.

    All copies are computed at once with vmap, or one at a time if vmap does not support the
    function. 0-dim tensors are shared by all copies. Some operators have functions of their own for
    stacks.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._vectorizes: bool | None = None
        self._own = ON_COPIES.get(function.function) if isinstance(function, Whole) else None

    def __call__(self, *args: Any) -> Any:
        """Return the values of all copies."""
        import torch

        if self._own is not None and len(args[0]):
            return self._own(*args)
        stacked = [isinstance(a, torch.Tensor) and a.ndim > 0 for a in args]
        if self._vectorizes is False or not len(args[0]):
            return self._loop(args, stacked)
        in_dims = tuple(0 if s else None for s in stacked)
        vectorized = torch.func.vmap(self.function, in_dims=in_dims)
        if self._vectorizes:
            try:
                return vectorized(*args)
            except _failure():  # one copy at a time, so that only the failing ones are NaN
                return self._loop(args, stacked)
        try:
            with warnings.catch_warnings():
                # vmap warns if it falls back to a loop.
                warnings.filterwarnings("error", message="There is a performance drop")
                result = vectorized(*args)
        except RuleError:
            raise
        except Exception:  # such as control flow on values, or NumPy
            result = self._loop(args, stacked)
            self._vectorizes = False
        else:
            self._vectorizes = True
        return result

    def _loop(self, args: Sequence[Any], stacked: Sequence[bool]) -> Any:
        import torch

        if not len(args[0]):
            return args[0].clone()
        rows = [
            self.function(*(a[i] if s else a for a, s in zip(args, stacked, strict=True)))
            for i in range(len(args[0]))
        ]
        if isinstance(rows[0], tuple):
            return tuple(torch.stack(column) for column in zip(*rows, strict=True))
        return torch.stack(rows)


def init_copies(init: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    """Return the initial value of a slot of any shape for each copy in a stack."""
    one = init(like.new_zeros(like.shape[1:]))
    return one.expand(len(like), *one.shape).clone()
