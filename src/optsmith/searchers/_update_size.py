"""The size of a rule's updates on invented gradients, by which changed rules keep their size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from optsmith._errors import RuleError
from optsmith.rules import Rule, depends_on_role, for_role
from optsmith.searchers._genome import Genome

if TYPE_CHECKING:
    from torch import Tensor

STEPS, SIDE = 24, 12
"""Number of gradients, and rows and columns of the matrix that they are of."""

SIGNAL = 0.5
"""Size of the part of the gradients that stays the same, relative to the part that does not."""

WEIGHTS = 0.05
"""Size of the weights."""

SCALES = tuple(10.0 ** (k / 2) for k in range(-10, 3))
"""Sizes of gradients that a task may have."""

USUAL = 0.01
"""Size of the gradients if nothing is known."""


class UpdateSize:
    """The root mean square of a rule's updates.

    Updates of a rule such as `sign(g)` do not depend on the size of the gradients, those of others
    do. The gradients have the size at which the known rules, with their learning rates, make
    updates of about equal size.

    Args:
        known: Rules with their tuned learning rates.
    """

    def __init__(self, known: Sequence[Genome]) -> None:
        found = {scale: _steps(known, scale) for scale in SCALES}
        self._scale = min(SCALES, key=lambda scale: _variance(found[scale])) if known else USUAL
        self._steps = sorted(found[self._scale]) if known else []

    def of(self, rule: Rule) -> float:
        """Return the root mean square of a rule's updates; NaN if it is not finite."""
        return _size(rule, self._scale)

    def suited(self, rule: Rule) -> float | None:
        """Return the learning rate at which a rule makes updates of the usual size.

        None if no usual size is known, or the rule has none.
        """
        size = _size(rule, self._scale)
        if not (self._steps and 0 < size < math.inf):
            return None
        return float(f"{math.exp(self._steps[len(self._steps) // 2]) / size:.3g}")

    def kept(self, before: Genome, rule: Rule) -> float:
        """Return the learning rate at which a changed rule makes updates of the same size.

        Args:
            before: The genome before the change.
            rule: The rule after it.
        """
        old, new = _size(before.rule, self._scale), _size(rule, self._scale)
        is_usable = 0 < old < math.inf and 0 < new < math.inf
        return before.lr * old / new if is_usable else before.lr


def _steps(known: Sequence[Genome], scale: float) -> list[float]:
    """Return the logarithms of the sizes of learning rate times update."""
    sizes = [(genome.lr, _size(genome.rule, scale)) for genome in known]
    return [math.log(lr * size) for lr, size in sizes if 0 < size < math.inf]


def _variance(values: Sequence[float]) -> float:
    mean = sum(values) / max(1, len(values))
    return sum((x - mean) ** 2 for x in values)


@lru_cache(maxsize=4096)
def _size(rule: Rule, scale: float) -> float:
    """Return the root mean square of the second half of the updates; NaN if it is not finite."""
    try:
        squares = [_square(for_role(rule, hidden), scale) for hidden in _roles(rule)]
    except RuleError:  # such as unit(2), which the screen refuses
        return math.nan
    return math.sqrt(sum(squares) / len(squares))


def _roles(rule: Rule) -> tuple[bool, ...]:
    return (True, False) if depends_on_role(rule) else (False,)


def _square(rule: Rule, scale: float) -> float:
    from optsmith.optim import Program  # imports torch

    program = Program(rule)
    weights, gradients = _invented()
    state, total = [program.init(weights)], 0.0
    for t, gradient in enumerate(gradients, start=1):
        (update,), state = program.update([scale * gradient], state, t, 2 * STEPS, 0, [weights])
        if t > STEPS // 2:
            total += float(update.square().mean())
    return total / (STEPS - STEPS // 2)


@lru_cache(maxsize=1)
def _invented() -> tuple[Tensor, list[Tensor]]:
    """Return weights, and gradients of size 1."""
    import torch

    rng = torch.Generator().manual_seed(0)

    def draw() -> Tensor:
        return torch.randn(SIDE, SIDE, generator=rng, dtype=torch.float64)

    signal = SIGNAL * draw()
    length = math.sqrt(1 + SIGNAL**2)
    return WEIGHTS * draw(), [(signal + draw()) / length for _ in range(STEPS)]
