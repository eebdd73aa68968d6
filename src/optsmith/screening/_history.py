"""The gradients of fingerprints, which include rare events that tell rules apart."""

from __future__ import annotations

import math
import random

import torch
from torch import Tensor

from optsmith.screening._trajectory import Trajectory, drifting

RUN_LENGTH = 997
"""Length of the run that the probe's times are taken from; long, so that `rd` varies."""

# Enough steps for slow averages to forget their initial value. Some steps are recorded, but not the
# first, where m1 = g and m2 = g2.
STEPS, COLUMNS = 400, 30
RECORDED = range(24, STEPS, 25)

# The part of the history that rules with operators on whole tensors are run on.
SHORT_START, SHORT_STEPS = 200, 100
SHORT_RECORDED = range(4, SHORT_STEPS, 10)

# Shape of each half as a tensor, for operators of scope "tensor"; tall, so that no factor for the
# shape of a matrix is 1.
SHAPE = (6, 5)

# Times that tell decays apart: the ends of a run, only cd near 1, only rd near 0, only rd near 1,
# and cd below 0.003 (the bound of clip) with ld above.
SPECIAL_TIMES = (1 / (RUN_LENGTH + 1), 0.02, 0.34995, 0.5005, 0.98, RUN_LENGTH / (RUN_LENGTH + 1))

# Magnitudes that tell constants and powers apart: those where g, g2 or g3 (and m2, m3) is 1 or 2,
# and those where g2 or g3 is so large that exp overflows but 2^x does not.
SPECIAL_SIZES = (1.0, 2.0, 2 ** (1 / 2), 2 ** (1 / 3), 900 ** (1 / 2), 900 ** (1 / 3))

# Smallest magnitude of g and m1 other than 0. Below it, the 1e-8 that guards divisions would make
# equivalent forms with divisions differ, such as g2/g and g.
TINY = 3e-6

BURST = 12  # length of a burst, in steps


def history() -> Trajectory:
    """Return the trajectory: two halves with different gradients and the same random numbers.

    A rule whose output is equal in both halves does not depend on the gradient.
    """
    rng = random.Random(20221127)  # noqa: S311 - must not change: fingerprints are stored
    columns = []
    for half in range(2):
        for i in range(COLUMNS - len(SPECIAL_SIZES) - 1):
            # Both halves start with equally many zeros, so that m1 = 0 there does not count as
            # dependence on the gradient.
            asleep = RECORDED[i // 2 + 2] - BURST if i % 4 == 3 else 0
            columns.append(_restless(_magnitude(i + half / 2), asleep, rng))
        for i, size in enumerate(SPECIAL_SIZES):
            signs = (-1, 1, 1, 1) if half else ((-1,) if i % 2 else (1,))
            columns.append(_steady(size, signs, rng))
        columns.append([0.0] * STEPS)  # an element without gradient
    gradients = torch.tensor(columns, dtype=torch.float64).T.contiguous()
    return Trajectory(gradients, _times(STEPS, RECORDED), COLUMNS, RECORDED, SHAPE, _weights())


def short_history(whole: Trajectory) -> Trajectory:
    """Return a part of the history, for rules with operators on whole tensors.

    They take several times as long per step as element-wise operators, and tell each other apart
    by more than rare events. Some columns start with zeros here as well.
    """
    part = slice(SHORT_START, SHORT_START + SHORT_STEPS)
    times = _times(SHORT_STEPS, SHORT_RECORDED)
    assert whole.weights is not None  # noqa: S101
    gradients, weights = whole.gradients[part], whole.weights[part]
    return Trajectory(gradients, times, COLUMNS, SHORT_RECORDED, SHAPE, weights)


def _weights() -> Tensor:
    """Return weights of many magnitudes, the same in both halves."""
    rng = random.Random(20261116)  # noqa: S311 - must not change: fingerprints are stored
    sizes = torch.tensor([10 ** rng.uniform(-2, 0.5) for _ in range(COLUMNS)], dtype=torch.float64)
    weights = drifting(rng, STEPS, COLUMNS, 1.0) * sizes
    weights[:, rng.randrange(COLUMNS)] = 0.0  # such as a bias
    return torch.cat([weights, weights], 1)


def _magnitude(i: float) -> float:
    """Return the typical magnitude of column i: every second one is near 1, as constants are."""
    low, high = (-1.0, 1.0) if int(i) % 2 else (-5.0, 2.0)
    return 10 ** (low + (high - low) * i / (COLUMNS - len(SPECIAL_SIZES) - 1))


def _steady(size: float, signs: tuple[int, ...], rng: random.Random) -> list[float]:
    """Return gradients of magnitude about `size`, some within 0.003 (the bound of clip)."""
    spread = [rng.choice((3e-4, 0.5)) * rng.uniform(-1, 1) for _ in range(STEPS)]
    return [rng.choice(signs) * size * (1 + x) for x in spread]


def _restless(magnitude: float, asleep: int, rng: random.Random) -> list[float]:
    """Return gradients with zeros, bursts and special values, all 0 before step `asleep`."""
    column = [_keep_off_zero(magnitude * rng.gauss(0.0, 1.0)) for _ in range(STEPS)]
    for k in rng.sample(range(STEPS), STEPS // 4):
        # 0, or small relative to previous gradients; the first gradient is not 0 in both halves.
        if k > asleep:
            column[k] = rng.choice((0.0, 0.0, _keep_off_zero(1e-3 * column[k])))
    # After zeros, a burst of one sign makes Adam and RMSprop much larger than usual, most of all if
    # all gradients before were 0.
    for end in (rng.choice(RECORDED), asleep + BURST if asleep else rng.choice(RECORDED)):
        sign, start = rng.choice((-1, 1)), end - BURST
        column[start - BURST // 2 : start] = [0.0] * (BURST // 2)
        for k in range(start, end + 1):
            column[k] = sign * _keep_off_zero(10 * magnitude * rng.uniform(0.5, 1.5))
    column[:asleep] = [0.0] * asleep
    # Gradients such that g or m1 is about 1 or 2, or m1 is negligible relative to g. In columns of
    # small magnitude, values near 1 would hide the effects of small gradients.
    kinds = ("g", "m1", "no m1", "no m1") if magnitude >= 0.1 else ("no m1", "no m1")
    places = rng.sample([k for k in RECORDED if k > asleep + BURST], len(kinds))
    wanted = dict(zip(places, kinds, strict=True))
    m1 = 0.0
    for k in range(asleep, STEPS):
        near = rng.choice((-2, -1, 1, 2)) * (1 + 0.001 * rng.uniform(-1, 1))
        left = _keep_off_zero(m1 * 10 ** rng.uniform(-6, -2))
        targets = {"g": near, "m1": near - 0.9 * m1, "no m1": left - 0.9 * m1}
        g = targets.get(wanted.get(k, ""), column[k])
        g = _keep_off_zero(g) if g else 0.0
        if m1 and abs(0.9 * m1 + g) < TINY / 2:
            g = math.copysign(TINY, m1)
        column[k] = g
        m1 = 0.9 * m1 + g
    return column


def _keep_off_zero(x: float) -> float:
    return math.copysign(max(abs(x), TINY), x)


def _times(steps: int, recorded: range) -> Tensor:
    """Return times in an order that combines all times of a run with new and old states."""
    golden = (math.sqrt(5) - 1) / 2
    pace = golden / recorded.step  # spreads the recorded times evenly
    times = torch.tensor([(k + 1) * pace % 1 for k in range(steps)], dtype=torch.float64)
    for i, time in zip(range(0, len(recorded), 2), SPECIAL_TIMES, strict=False):
        times[recorded[i]] = time
    return times
