"""Checks that users' operators do what they declare, on small samples, once per definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from optsmith._errors import RuleError
from optsmith.rules._built_in import is_built_in
from optsmith.rules._operator import SCALAR_FEEDS

if TYPE_CHECKING:
    from torch import Tensor

    from optsmith.rules._operator import Operator

_ROWS, _COLUMNS = 4, 6
_passed: set[str] = set()


def verify(operator: Operator) -> None:
    """Check that an operator changes nothing in place and, for scope "element", is element-wise.

    Raises:
        RuleError: The check failed; the message says how to fix the operator.
    """
    if operator.feed == "nothing" or is_built_in(operator) or operator.definition in _passed:
        return
    _check(operator)
    _passed.add(operator.definition)


def _check(operator: Operator) -> None:
    tensors = _samples(operator)
    try:
        whole = _values(operator, tensors)
    except RuleError:
        raise
    except Exception:  # such as a function of square matrices, which may fit the actual tensors
        return
    if operator.scope == "tensor" or operator.feed in SCALAR_FEEDS:
        return
    parts: list[Callable[[Tensor], Tensor]] = [
        lambda x: x[: _ROWS // 2],
        lambda x: x[_ROWS // 2 :],
        lambda x: x.flatten()[: _COLUMNS + 1],
    ]
    for part in parts:
        try:
            piece = _values(operator, [part(x) for x in tensors])
            same = all(map(_same, (_part(w, part) for w in whole), piece))
        except Exception:  # such as an unexpected shape
            same = False
        if not same:
            raise RuleError(
                f"the operator {operator.name} is not element-wise (its value on a part of a"
                ' tensor differs): declare it with scope="tensor"'
            )


def _samples(operator: Operator) -> list[Tensor]:
    """Return the operands, then the uniform numbers of a random operator."""
    import torch

    count = max(operator.arity, 1)
    steps = torch.arange(_ROWS * _COLUMNS, dtype=torch.float64).view(_ROWS, _COLUMNS)
    # Distinct values of both signs, without zeros.
    operands = [(steps * 7 % 24 - 11.3 + i) * 0.37 for i in range(count)]
    return operands + ([(steps * 5 % 24 + 0.5) / 24] if operator.random else [])


def _values(operator: Operator, tensors: list[Tensor]) -> list[Any]:
    """Return the results of the operator's functions on these tensors, over two steps."""
    count = max(operator.arity, 1)
    operands, noise = tensors[:count], tensors[count:]
    if operator.state is None:
        return [_unchanged(operator, operator.torch, *operands, *noise, *operator.values)]
    state = operator.state
    slots = tuple(_unchanged(operator, init, operands[0]) for init in state.inits)
    found: list[Any] = list(slots)
    for k in (1, 2):
        before = slots
        slots = tuple(_unchanged(operator, state.update, *operands, *slots, k, *operator.values))
        read = slots if state.reads == "after" else before
        given = (*operands, *read, k, *noise, *operator.values)
        found += [*slots, _unchanged(operator, operator.torch, *given)]
    return found


def _unchanged(operator: Operator, function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a function; raise if it changed an argument in place."""
    import torch

    from optsmith._torch import version

    given = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    tensors = [(a, g) for a, g in zip(args, given, strict=True) if isinstance(g, torch.Tensor)]
    versions = [version(g) for _, g in tensors]
    value = function(*given)
    for (before, after), old in zip(tensors, versions, strict=True):
        # Versions do not count changes by NumPy, which shares the memory.
        if version(after) != old or not _same(before, after):
            raise RuleError(
                f"the operator {operator.name} changes an argument in place: use functions that"
                " return new tensors (clamp, not clamp_; no out=)"
            )
    return value


def _part(value: Any, part: Callable[[Tensor], Tensor]) -> Any:
    return part(value) if getattr(value, "ndim", 0) else value


def _same(one: Any, other: Any) -> bool:
    import torch

    one, other = (torch.as_tensor(x).detach().double() for x in (one, other))
    return one.shape == other.shape and torch.allclose(one, other, 1e-9, 1e-12, equal_nan=True)
