"""Calls of functions of whole tensors, on one tensor or on all copies of a stack at once.

What an operator of scope "tensor" does is one call in every back end; here are what the call
promises and how it runs on copies.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optsmith._errors import RuleError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Whole:
    """The torch function of an operator on one whole tensor: returns a tensor of its shape.

    One number is spread over the tensor. A matrix function that fails on what it is given, such as
    a decomposition of numbers that are not finite, returns NaN: training goes on without it.

    Args:
        name: The operator's name, for messages.
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
    """The update of an operator's state on one whole tensor: returns all slots, each of its shape.

    Args:
        name: The operator's name, for messages.
        update: `State.update`.
        slots: Number of slots.
    """

    name: str
    update: Callable[..., Any]
    slots: int

    def __call__(self, x: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        """Return the new slots."""
        import torch

        old = rest[: self.slots]
        try:
            new = self.update(x, *rest)
        except _failure():
            return tuple(torch.full_like(slot, torch.nan) for slot in old)
        return tuple(_of_shape(self.name, n, o) for n, o in zip(new, old, strict=True))


def _failure() -> type[Exception]:
    """Return the error of matrix functions."""
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
        f"the operator {name} made {tuple(tensor.shape)} of a tensor of shape {tuple(like.shape)}:"
        " return a tensor of the same shape, or one number"
    )


class OverCopies:
    """A function of whole tensors on a stack of copies: the first dimension of every tensor.

    Runs all copies at once by vmap; copy by copy where the function does what vmap cannot do.
    Tensors without dimensions are shared by the copies.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._vectorizes: bool | None = None

    def __call__(self, *args: Any) -> Any:
        """Return the values of all copies."""
        import torch

        stacked = [isinstance(a, torch.Tensor) and a.ndim > 0 for a in args]
        if self._vectorizes is False or not len(args[0]):
            return self._loop(args, stacked)
        in_dims = tuple(0 if s else None for s in stacked)
        vectorized = torch.func.vmap(self.function, in_dims=in_dims)
        if self._vectorizes:
            try:
                return vectorized(*args)
            except _failure():  # one copy must not spoil the others
                return self._loop(args, stacked)
        try:
            with warnings.catch_warnings():
                # vmap warns when all it can do is a loop.
                warnings.filterwarnings("error", message="There is a performance drop")
                result = vectorized(*args)
        except RuleError:
            raise
        except Exception:  # control flow on values, numpy: whatever a user's function may do
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
    """Return the first value of a slot of any shape, for each copy in a stack like `like`."""
    one = init(like.new_zeros(like.shape[1:]))
    return one.expand(len(like), *one.shape).clone()


def over_copies(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of whole tensors as a function of stacks of them."""
    return OverCopies(function)
