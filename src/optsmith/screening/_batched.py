"""Built-in operators of whole tensors, on stacks of tensors.

Called with one tensor at a time, or through vmap, they would take most of the time of a screen.
`tests/screening/test_batched.py` compares each with the operator's own functions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from optsmith.rules import Operator, is_built_in
from optsmith.screening._sums import sums

LONGEST = 1024
"""Longest side that `whiten` treats."""


def batched(operator: Operator) -> Callable[..., Tensor] | None:
    """Return an operator without state as a function of stacks of tensors, if there is one."""
    return _STATELESS.get(operator.name) if is_built_in(operator) else None


def batched_over_steps(operator: Operator) -> Callable[..., Tensor] | None:
    """Return an operator with state as a function of stacks of steps times tensors.

    Its arguments are the operands, the indices of the steps whose results are wanted, and the
    parameter values.
    """
    return _STATEFUL.get(operator.name) if is_built_in(operator) else None


# --- without state --------------------------------------------------------------------------------


def _orthogonal(x: Tensor) -> Tensor:
    wide = x.flatten(2) if x.ndim > 2 else x.unsqueeze(1)  # a vector is one row
    is_tall = wide.shape[1] > wide.shape[2]
    wide = wide.mT if is_tall else wide
    wide = wide / (_norm(wide) + 1e-7)
    for _ in range(5):
        gram = torch.bmm(wide, wide.mT)
        factor = torch.baddbmm(gram, gram, gram, beta=-4.775, alpha=2.0315)
        wide = torch.baddbmm(wide, factor, wide, beta=3.4445)
    return (wide.mT if is_tall else wide).reshape(x.shape)


def _norm(x: Tensor) -> Tensor:
    return x.square().sum((1, 2), keepdim=True).sqrt()


def _rms(x: Tensor) -> Tensor:
    mean: Tensor = x.square().mean(tuple(range(1, x.ndim)), keepdim=True)
    return mean.sqrt()


def _root_mean_square(x: Tensor) -> Tensor:
    return _rms(x).expand(x.shape)


def _unit(x: Tensor) -> Tensor:
    return x / (_rms(x) + 1e-12)


def _along(dimension: int) -> Callable[[Tensor], Tensor]:
    def scaled(x: Tensor) -> Tensor:
        if x.ndim == 2:
            return _unit(x)
        matrix = x.flatten(2)
        size = matrix.square().mean(dimension, keepdim=True).sqrt()
        return (matrix / (size + 1e-12)).reshape(x.shape)

    return scaled


_STATELESS: dict[str, Callable[..., Tensor]] = {
    "orth": _orthogonal,
    "rms": _root_mean_square,
    "unit": _unit,
    "rows": _along(2),
    "cols": _along(1),
}

# --- with state -----------------------------------------------------------------------------------


def _previous(x: Tensor, steps: range) -> Tensor:
    return x[[max(step - 1, 0) for step in steps]]


def _momentum(x: Tensor, steps: range, beta: float) -> Tensor:
    return sums(x, steps, beta)


def _corrected(x: Tensor, steps: range, beta: float) -> Tensor:
    return sums(x, steps, beta) * _correction(steps, beta)


@lru_cache(maxsize=256)
def _correction(steps: range, beta: float) -> Tensor:
    k = torch.tensor([[step + 1.0] for step in steps], dtype=torch.float64)
    factor: Tensor = (1 - beta) / (1 - beta**k)
    return factor


def _whiten(
    x: Tensor, y: Tensor, steps: range, beta: float, every: float, sides: str, power: float
) -> Tensor:
    wanted = x[list(steps)]
    if x.ndim == 3:  # vectors
        return wanted
    matrix, other = wanted.flatten(3), y.flatten(3)
    if "r" in sides and other.shape[2] <= LONGEST:
        matrix = _roots(other @ other.mT, steps, beta, every, power) @ matrix
    if "c" in sides and other.shape[3] <= LONGEST:
        matrix = matrix @ _roots(other.mT @ other, steps, beta, every, power)
    return matrix.reshape(wanted.shape)


def _roots(products: Tensor, steps: range, beta: float, every: float, power: float) -> Tensor:
    """Return the inverse roots of the averages that are in use at some steps."""
    needed, places = _refreshed(len(products), steps, every)
    averages = (1 - beta) * sums(products.flatten(1), needed, beta)
    return _inverse_root(averages.view(-1, *products.shape[1:]), power)[list(places)]


@lru_cache(maxsize=256)
def _refreshed(total: int, steps: range, every: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the steps at which the roots used at `steps` were computed, and which each uses."""
    fresh = [step for step in range(total) if step % every == 0]
    used = [fresh[bisect_right(fresh, step) - 1] for step in steps]
    needed = sorted(set(used))
    return tuple(needed), tuple(needed.index(step) for step in used)


def _inverse_root(squares: Tensor, power: float) -> Tensor:
    # A decomposition fails if one matrix of the stack is not finite.
    bad = ~squares.isfinite().all(3, keepdim=True).all(2, keepdim=True)
    values, vectors = torch.linalg.eigh(squares.where(~bad, 0.0))
    scaled = values / (values.mean(2, keepdim=True) + 1e-30)
    roots = scaled.clamp(min=1e-6) ** -power
    power_of: Tensor = (vectors * roots.unsqueeze(2)) @ vectors.mT
    return power_of.where(~bad, torch.nan)


def _whitened(sides: str, power: float) -> Callable[..., Tensor]:
    def whiten(x: Tensor, y: Tensor, steps: range, beta: float, every: float) -> Tensor:
        return _whiten(x, y, steps, beta, every, sides, power)

    return whiten


_STATEFUL: dict[str, Callable[..., Tensor]] = {
    "ema": _corrected,
    "mom": _momentum,
    "prev": _previous,
    "whiten": _whitened("rc", 0.25),
    "whitenr": _whitened("r", 0.5),
    "whitenc": _whitened("c", 0.5),
}
