"""Comparison of two rules as functions, on gradients that the screen does not use."""

from __future__ import annotations

import math
import random
from functools import cache
from itertools import permutations

import numpy as np
import torch

from optsmith.rules import Operator, Rule
from optsmith.screening._fingerprint import Array
from optsmith.screening._probe import Probe
from optsmith.screening._trajectory import Trajectory, gaussian

STEPS, ELEMENTS = 400, 48
TOLERANCE = 1e-6
NEGLIGIBLE = 1e-10  # entries this small relative to the largest of their column may differ
ROUNDING = (
    1e-12,
    1e-15,
)  # relative to the column's largest, and absolute: (1 + x) - 1 rounds
RANGE = 1e-290, 1e290  # outside, float64 is close to overflow or underflow


class Judge:
    """Compares rules as functions, on gradients that the screen does not use."""

    def __init__(self, seed: int) -> None:
        self.probe = Probe([_long_trajectory(random.Random(seed))], seed=seed)
        self._input = cache(lambda operator: self.probe.input(operator).numpy())
        self._outputs = cache(self._run)

    def _run(self, rule: Rule, masks: tuple[int, ...]) -> tuple[Array, Array]:
        """Return the output, and a mask of entries with an intermediate value out of range."""
        shape = (STEPS, ELEMENTS)
        beyond = np.zeros(STEPS * ELEMENTS, dtype=bool)
        unused = list(masks)

        def combine(operator: Operator, operands: list[Array]) -> Array:
            nonlocal beyond
            if operator.arity == 0:
                return self._input(operator)
            noise = [self.probe.uniform(unused.pop())] if operator.random else []
            tensors = [torch.from_numpy(x) for x in operands]
            value: Array = operator.torch(*tensors, *noise, *operator.values).numpy()
            if operator.name in ("exp", "pow", "mul", "div"):
                size = np.abs(value)
                beyond = beyond | (size > RANGE[1]) | (size < RANGE[0]) & (operands[0] != 0)
            return value

        flat = rule.fold(combine)
        return np.broadcast_to(flat, beyond.shape).reshape(shape), beyond.reshape(shape)

    def differ(self, one: Rule, two: Rule, up_to_scale: bool = False) -> tuple[int, int]:
        """Return the number of entries that differ, for the best assignment of random masks.

        Returns:
            The number of entries, and the number of those not caused by overflow or underflow.
        """
        compare = _proportional if up_to_scale else _different
        drops = [sum(operator.random for operator in rule.operators) for rule in (one, two)]
        # A rule that ignores one of its masks may be equal to a rule without that mask.
        masks = range(max(drops))
        least = STEPS * ELEMENTS + 1, 0
        with np.errstate(all="ignore"):
            first, beyond_first = self._outputs(one, tuple(masks)[: drops[0]])
            for choice in permutations(masks, drops[1]):
                second, beyond = self._outputs(two, choice)
                different = compare(first, second)
                inside = different & ~(beyond_first | beyond)
                least = min(least, (int(different.sum()), int(inside.sum())))
                if least[0] == 0:
                    break
        return least

    def forget(self) -> None:
        """Clear the cached outputs."""
        self._outputs.cache_clear()


def _long_trajectory(rng: random.Random) -> Trajectory:
    """Return correlated gradients of many magnitudes, with bursts, zeros and dead elements."""
    gradients = gaussian(rng, STEPS, ELEMENTS)
    for i in range(ELEMENTS):
        column = gradients[:, i]
        memory = rng.choice((0.0, 0.5, 0.95))
        for k in range(1, STEPS):
            column[k] = memory * column[k - 1] + math.sqrt(1 - memory**2) * column[k]
        column *= 10 ** rng.uniform(-4, 1)
        for _ in range(4):
            start, length = rng.randrange(STEPS), rng.randint(1, 20)
            burst = column[start : start + length]
            burst.copy_(10 * burst.abs() * rng.choice((-1, 1)))
        silent = rng.randrange(STEPS)
        column[silent : silent + 50] = 0.0
        column[rng.sample(range(STEPS), STEPS // 10)] = 0.0
    gradients[:, -2] = 0.0
    gradients[: STEPS // 2, -1] = 0.0
    taus = torch.arange(1, STEPS + 1, dtype=torch.float64) / (STEPS + 1)
    return Trajectory(gradients, taus, ELEMENTS, range(STEPS))


def _sizes(values: Array) -> Array:
    return np.where(np.isfinite(values), np.abs(values), 0.0)


def _different(one: Array, two: Array) -> Array:
    """Return a mask of the entries that differ."""
    size = np.maximum(_sizes(one), _sizes(two))
    largest = size.max(axis=0)
    allowed = TOLERANCE * size + ROUNDING[0] * largest + ROUNDING[1]
    close = (np.abs(one - two) <= allowed) | (size <= NEGLIGIBLE * largest)
    finite = np.isfinite(one) & np.isfinite(two)
    return ~np.where(finite, close, (one == two) | (np.isnan(one) & np.isnan(two)))


def _proportional(one: Array, two: Array) -> Array:
    """Return a mask of the entries that differ after scaling the second by the best factor."""
    sizes = _sizes(one), _sizes(two)
    notable = (sizes[0] > 0) & (sizes[1] > 0)
    notable &= sizes[1] > NEGLIGIBLE * sizes[1].max(axis=0)
    if not notable.any():
        return _different(one, two)
    factor = np.median(one[notable] / two[notable])
    return _different(one, two * factor) if factor > 0 else np.ones_like(notable)
