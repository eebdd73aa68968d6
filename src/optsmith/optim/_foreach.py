"""Execution on lists of tensors with torch's multi-tensor functions: few launches on a GPU."""

from __future__ import annotations

from typing import Any

import torch

from optsmith.optim._batch import Batch
from optsmith.optim._trace import Instruction, Value

# Instructions that torch has for lists.
_UNARY = {"abs", "cos", "exp", "log", "neg", "sigmoid", "sign", "sin", "sqrt", "tanh"}
_BINARY = {"add", "sub", "mul", "div", "pow"}


def step_lists(batch: Batch) -> None:
    """Update parameters and their states in place."""
    code, params = batch.program.code, list(batch.params)
    values, numbers = batch.program.tensors(batch.scalars, batch.dtype), batch.scalars
    values[code.gradient.index] = list(batch.gradients)
    slots = [[state[j] for state in batch.states] for j in range(len(code.slots))]
    for slot, tensors in zip(code.slots, slots, strict=True):
        values[slot.before.index] = tensors
    noise = [batch.noise(i, 0, p.numel()) for i, p in enumerate(params)]
    for j, value in enumerate(code.uniforms):
        values[value.index] = [n[j].view(p.shape) for n, p in zip(noise, params, strict=True)]
    for instruction in code.body:
        values[instruction.out.index] = _call(instruction, values, numbers, len(params))
    if code.result.is_scalar:
        torch._foreach_sub_(params, batch.lr * numbers[code.result.index])
    else:
        torch._foreach_add_(params, values[code.result.index], alpha=-batch.lr)
    for slot, tensors in zip(code.slots, slots, strict=True):
        torch._foreach_copy_(tensors, values[slot.after.index])


def _call(instruction: Instruction, values: list[Any], numbers: list[Any], count: int) -> Any:
    name, args = instruction.name, instruction.args
    first, *rest = (values[a.index] if isinstance(a, Value) else a for a in args)
    multi = getattr(torch, f"_foreach_{name}", None)
    if isinstance(first, list) and not instruction.kwargs and first[0].is_floating_point():
        if name in _UNARY:
            return list(multi(first))  # type: ignore[misc]
        if name in _BINARY:
            other = args[1]
            if isinstance(other, Value) and other.is_scalar:
                return list(multi(first, numbers[other.index]))  # type: ignore[misc]
            if not (isinstance(rest[0], list) and not rest[0][0].is_floating_point()):
                return list(multi(first, rest[0]))  # type: ignore[misc]
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
