"""How much less training a recipe needs for the result of another one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from optsmith.evaluation._paired import LEVEL, differences
from optsmith.task import Objective

_POINTS = 501
"""Shares at which curves are computed; between horizons they are interpolated."""


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """The shortest horizon at which a recipe matches another one's full run.

    Attributes:
        share: Length of that run, as a share of the other recipe's steps.
        low: Lower end of its 95 % confidence interval; 0 if it is below the shortest horizon tried,
            NaN with fewer than two seeds.
        high: Upper end; 1 if it is not below 1.
        bound: "" normally; "below" if the recipe matches even at the shortest horizon tried
            (`share` is that horizon), "above" if it does not match at full length (`share` is 1).
        seeds: Number of seeds.
    """

    share: float
    low: float
    high: float
    bound: str
    seeds: int


def speed_up(
    scores: Mapping[float, Sequence[float]], target: Sequence[float], objective: Objective
) -> SpeedUp:
    """Return how much less training a recipe needs for the result of another one.

    The paired difference to the target is interpolated over the logarithm of the horizon, and made
    monotone, because longer training is worse only by noise. The share is where the mean difference
    is zero; the interval has the shares at which a t test finds no difference.

    Horizons up to the longest one at which a run diverged do not match. Seeds on which the target
    diverged are left out, because any run would match.

    Args:
        scores: Scores of the recipe by seed, by share of the full length; 1.0 is among them.
        target: Scores of the other recipe's full run, on the same seeds in the same order.
        objective: The objective of the task.
    """
    goal = np.asarray(target, dtype=float)
    kept = np.isfinite(goal)
    shares = sorted(scores)
    values = np.array([np.asarray(scores[share], dtype=float)[kept] for share in shares])
    seeds = int(kept.sum())
    diverged = ~np.isfinite(values).all(axis=1)
    first = int(np.flatnonzero(diverged).max(initial=-1)) + 1
    if not seeds or first == len(shares):
        return SpeedUp(1.0, math.nan, math.nan, "above", seeds)
    shares, values = shares[first:], values[first:]
    _, gaps = differences(values, np.broadcast_to(goal[kept], values.shape))
    worse = gaps if objective.direction == "minimize" else -gaps
    grid = np.geomspace(shares[0], 1.0, _POINTS)
    paths = np.array([np.interp(np.log(grid), np.log(shares), path) for path in worse.T])
    mean = paths.mean(axis=0)
    share, bound = _crossing(grid, mean)
    if seeds < 2:
        return SpeedUp(share, math.nan, math.nan, bound, seeds)
    error = paths.std(axis=0, ddof=1) / math.sqrt(seeds)
    margin = float(stdtrit(seeds - 1, 1 - LEVEL / 2)) * error
    low, side = _crossing(grid, mean - margin)
    high, _ = _crossing(grid, mean + margin)
    return SpeedUp(share, 0.0 if side == "below" else low, high, bound, seeds)


def _crossing(grid: NDArray[np.float64], curve: NDArray[np.float64]) -> tuple[float, str]:
    """Return where a curve, made decreasing, falls to zero, and the bound if it does not cross."""
    curve = _decreasing(curve)
    if curve[0] <= 0:
        return float(grid[0]), "below"
    if curve[-1] > 0:
        return 1.0, "above"
    after = int(np.argmax(curve <= 0))
    part = curve[after - 1] / (curve[after - 1] - curve[after])
    return float(grid[after - 1] * (grid[after] / grid[after - 1]) ** part), ""


def _decreasing(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the decreasing sequence nearest to the values (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        mean, count = value, 1
        while blocks and blocks[-1][0] < mean:
            before, size = blocks.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        blocks.append((mean, count))
    return np.concatenate([np.full(count, mean) for mean, count in blocks])
