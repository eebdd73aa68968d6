"""Execution on lists of tensors with torch's multi-tensor functions: few launches on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from optsmith.optim._program import Program, Scalars, cast
from optsmith.optim._trace import Instruction, Value

# Instructions that torch has for lists, and whether their second operand may be a number.
_UNARY = {"abs", "cos", "exp", "log", "neg", "sigmoid", "sign", "sin", "sqrt", "tanh"}
_BINARY = {"add", "sub", "mul", "div", "pow"}


def step_lists(
    program: Program,
    params: Sequence[Tensor],
    gradients: Sequence[Tensor],
    states: Sequence[Sequence[Tensor]],
    scalars: Scalars,
    lr: float,
    uniforms: Sequence[Sequence[Tensor]],
) -> None:
    """Update parameters and their states in place; all have one device and one precision.

    Args:
        program: The program.
        params: The parameters.
        gradients: Their gradients, in the precision of the arithmetic.
        states: Their states.
        scalars: The step's scalars, as the program gives them.
        lr: The learning rate.
        uniforms: The random numbers of each parameter.
    """
    code = program.code
    values: list[Any] = cast(scalars, gradients[0].dtype)
    numbers = [s.item() if isinstance(s, Tensor) else s for s in scalars]
    values[code.gradient.index] = list(gradients)
    for j, slot in enumerate(code.slots):
        values[slot.before.index] = [state[j] for state in states]
    for i, value in enumerate(code.uniforms):
        values[value.index] = [noise[i] for noise in uniforms]
    for instruction in code.body:
        values[instruction.out.index] = _call(instruction, values, numbers, len(params))
    result = values[code.result.index]
    if code.result.is_scalar:
        torch._foreach_sub_(list(params), lr * numbers[code.result.index])
    else:
        torch._foreach_add_(list(params), result, alpha=-lr)
    for j, slot in enumerate(code.slots):
        torch._foreach_copy_([state[j] for state in states], values[slot.after.index])


def _call(instruction: Instruction, values: list[Any], numbers: list[Any], count: int) -> Any:
    name, args = instruction.name, instruction.args
    first, *rest = (values[a.index] if isinstance(a, Value) else a for a in args)
    multi = getattr(torch, f"_foreach_{name}", None)
    if isinstance(first, list) and not instruction.kwargs and first[0].is_floating_point():
        if name in _UNARY:
            return multi(first)  # type: ignore[misc]
        if name in _BINARY:
            other = args[1]
            if isinstance(other, Value) and other.is_scalar:
                return multi(first, numbers[other.index])  # type: ignore[misc]
            if not (isinstance(rest[0], list) and not rest[0][0].is_floating_point()):
                return multi(first, rest[0])  # type: ignore[misc]
    # No such function for lists (or booleans are in play): one tensor at a time.
    named = {n: values[a.index] if isinstance(a, Value) else a for n, a in instruction.kwargs}

    def pick(a: Any, i: int) -> Any:
        return a[i] if isinstance(a, list) else a

    return [
        instruction.function(
            *(pick(a, i) for a in (first, *rest)), **{n: pick(a, i) for n, a in named.items()}
        )
        for i in range(count)
    ]
