"""Operators of whole tensors and operators with state, on the steps of a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from optsmith.rules import Operator, OverCopies, State, Whole, WholeState, init_copies
from optsmith.screening._batched import batched, batched_over_steps
from optsmith.screening._trajectory import Trajectory


def on_tensors(
    operator: Operator, trajectory: Trajectory, rows: Sequence[Tensor], as_vectors: bool
) -> Tensor:
    """Return the results of a stateless operator of scope "tensor" as a flat vector.

    Args:
        operator: The operator.
        trajectory: Says how a row is split into tensors.
        rows: The operands and random numbers, one row per step.
        as_vectors: Whether tensors are vectors instead of matrices.
    """
    function = batched(operator) or _over_copies(operator.name, operator.torch)
    stacks = [trajectory.stacks(x, as_vectors).flatten(0, 1) for x in rows]
    value: Tensor = function(*stacks, *operator.values)
    return value.reshape(-1)


def over_steps(
    operator: Operator,
    trajectory: Trajectory,
    rows: Sequence[Tensor],
    noise: Sequence[Tensor],
    steps: range,
    as_vectors: bool,
) -> Tensor:
    """Return the results of an operator with state at some steps as a flat vector.

    Args:
        operator: The operator.
        trajectory: The trajectory.
        rows: The operands at all steps, one row per step.
        noise: The random numbers at all steps of a random operator.
        steps: The steps whose results are wanted.
        as_vectors: Whether tensors are vectors instead of matrices.
    """
    state = operator.state
    assert state is not None  # noqa: S101
    known = batched_over_steps(operator)
    if operator.scope == "element":
        if known:
            return known(*rows, steps, *operator.values).reshape(-1)
        if state.scan:
            return _scanned(operator, rows, noise, steps)
        return _stepped(operator.torch, state.update, operator, rows, noise, steps)
    stacks = [trajectory.stacks(x, as_vectors) for x in rows]
    if known:
        return known(*stacks, steps, *operator.values).reshape(-1)
    uniforms = [trajectory.stacks(u, as_vectors) for u in noise]
    update = _over_copies(operator.name, state.update, len(state.slots), len(rows))
    function = _over_copies(operator.name, operator.torch)
    return _stepped(function, update, operator, stacks, uniforms, steps)


def _scanned(
    operator: Operator, rows: Sequence[Tensor], noise: Sequence[Tensor], steps: range
) -> Tensor:
    """Return the results at some steps, with the state at all steps computed at once."""
    state = operator.state
    assert state is not None  # noqa: S101
    assert state.scan is not None  # noqa: S101
    at = slice(steps.start, steps.stop, steps.step)
    slots = state.scan(*rows, *operator.values)
    k = torch.arange(1, len(rows[0]) + 1, dtype=torch.float64)[at, None]
    given = [x[at] for x in (*rows, *slots)]
    value: Tensor = operator.torch(*given, k, *(u[at] for u in noise), *operator.values)
    return value.reshape(-1)


def _stepped(
    function: Callable[..., Any],
    update: Callable[..., tuple[Tensor, ...]],
    operator: Operator,
    rows: Sequence[Tensor],
    noise: Sequence[Tensor],
    steps: range,
) -> Tensor:
    """Return the results at some steps, one step after another."""
    state = operator.state
    assert state is not None  # noqa: S101
    slots, results = _initial(state, rows[0][0], operator.scope == "tensor"), []
    for k in range(1, len(rows[0]) + 1):
        operands, before = [x[k - 1] for x in rows], slots
        slots = update(*operands, *slots, k, *operator.values)
        if k - 1 in steps:
            read = slots if state.reads == "after" else before
            uniforms = [u[k - 1] for u in noise]
            results.append(function(*operands, *read, k, *uniforms, *operator.values))
    return torch.cat([value.reshape(-1) for value in results])


def _initial(state: State, first: Tensor, is_stack: bool) -> tuple[Tensor, ...]:
    if is_stack:
        return tuple(init_copies(init, first) for init in state.inits)
    return tuple(init(first) for init in state.inits)


@lru_cache(maxsize=256)
def _over_copies(
    name: str, function: Callable[..., Any], slots: int = 0, operands: int = 1
) -> OverCopies:
    """Return a function of stacks of tensors; kept, because it finds out whether vmap works."""
    if slots:
        return OverCopies(WholeState(name, function, slots, operands))
    return OverCopies(Whole(name, function))
