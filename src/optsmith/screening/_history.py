"""The gradients on which fingerprints are taken.

Many rules differ only where something rare happens, so here rare things are made to happen.
"""

from __future__ import annotations

import math
import random

import torch
from torch import Tensor

from optsmith.screening._probe import Trajectory

RUN_LENGTH = 997
"""Steps of the imagined run over which the probe's times are spread: long, so `rd` varies."""

# The probe of the fingerprint: enough steps for slow averages to leave their start, recorded at
# some of them (never the first, where m1 = g and m2 = g2).
STEPS, COLUMNS = 400, 30
RECORDED = range(24, STEPS, 25)
SHAPE = (5, 6)  # of the tensor that each half is, for operators of whole tensors

# Times at which something is special: the ends of a run, cd alone nearly 1, rd alone nearly 0,
# rd alone nearly 1, cd below 0.003 (where clip acts) and ld above.
SPECIAL_TIMES = (1 / (RUN_LENGTH + 1), 0.02, 0.34995, 0.5005, 0.98, RUN_LENGTH / (RUN_LENGTH + 1))

# Sizes at which something is special: g, g2 or g3 is 1 or 2, and so are m2 and m3; g2 or g3 is
# where exp has left the range of floats and 2^x has not.
SPECIAL_SIZES = (1.0, 2.0, 2 ** (1 / 2), 2 ** (1 / 3), 900 ** (1 / 2), 900 ** (1 / 3))

# The least g and m1 other than 0. Closer to 0, the 1e-8 that guards divisions changes even g2/g,
# and no two forms with a division would be the same.
TINY = 3e-6

BURST = 12


def history() -> Trajectory:
    """Two halves with other gradients but the same random numbers, for the test of dependence.

    Many rules differ only where something rare happens, so rare things are made to happen.
    """
    rng = random.Random(20221127)  # noqa: S311 - fixed for good: fingerprints are stored
    columns = []
    for half in range(2):
        for i in range(COLUMNS - len(SPECIAL_SIZES) - 1):
            # Both halves sleep alike at first: that m1 is 0 there is no sign of dependence.
            asleep = RECORDED[i // 2 + 2] - BURST if i % 4 == 3 else 0
            columns.append(_restless(_magnitude(i + half / 2), asleep, rng))
        for i, size in enumerate(SPECIAL_SIZES):
            signs = (-1, 1, 1, 1) if half else ((-1,) if i % 2 else (1,))
            columns.append(_steady(size, signs, rng))
        columns.append([0.0] * STEPS)  # a dead element
    gradients = torch.tensor(columns, dtype=torch.float64).T.contiguous()
    return Trajectory(gradients, _times(), COLUMNS, RECORDED, SHAPE)


def _magnitude(i: float) -> float:
    """Return a typical size: every second around 1, where constants and decays are, others far."""
    low, high = (-1.0, 1.0) if int(i) % 2 else (-5.0, 2.0)
    return 10 ** (low + (high - low) * i / (COLUMNS - len(SPECIAL_SIZES) - 1))


def _steady(size: float, signs: tuple[int, ...], rng: random.Random) -> list[float]:
    """Return gradients about as large as `size`; some so close that a clip to 0.003 shows it."""
    spread = [rng.choice((3e-4, 0.5)) * rng.uniform(-1, 1) for _ in range(STEPS)]
    return [rng.choice(signs) * size * (1 + x) for x in spread]


def _restless(magnitude: float, asleep: int, rng: random.Random) -> list[float]:
    """Return gradients with zeros, silence, bursts and coincidences, all 0 before step `asleep`."""
    column = [_keep_off_zero(magnitude * rng.gauss(0.0, 1.0)) for _ in range(STEPS)]
    for k in rng.sample(range(STEPS), STEPS // 4):
        # Nothing, or small beside what went before; but the first is something in both halves.
        if k > asleep:
            column[k] = rng.choice((0.0, 0.0, _keep_off_zero(1e-3 * column[k])))
    # After a silence a burst of one sign takes Adam and RMSprop far beyond their usual size; most
    # of all when the silence began at the start.
    for end in (rng.choice(RECORDED), asleep + BURST if asleep else rng.choice(RECORDED)):
        sign, start = rng.choice((-1, 1)), end - BURST
        column[start - BURST // 2 : start] = [0.0] * (BURST // 2)
        for k in range(start, end + 1):
            column[k] = sign * _keep_off_zero(10 * magnitude * rng.uniform(0.5, 1.5))
    column[:asleep] = [0.0] * asleep
    # The gradients at which g or m1 is about 1 or 2, or m1 vanishes beside g. Where gradients are
    # tiny, 1 would be a giant and hide what tiny gradients do.
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


def _times() -> Tensor:
    """Return times that jump about, so that young and old states both meet all times of a run."""
    golden = (math.sqrt(5) - 1) / 2
    pace = golden / RECORDED.step  # so the recorded ones are spread as evenly as can be
    times = torch.tensor([(k + 1) * pace % 1 for k in range(STEPS)], dtype=torch.float64)
    for i, time in zip(range(0, len(RECORDED), 2), SPECIAL_TIMES, strict=False):
        times[RECORDED[i]] = time
    return times
