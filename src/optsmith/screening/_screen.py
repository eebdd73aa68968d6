"""Train-free checks of a rule: is it well-formed, does it descend, is it known already?"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from optsmith.rules import Rule
from optsmith.screening._fingerprint import Array, fingerprints
from optsmith.screening._probe import Probe, Trajectory, gaussian

RUN_LENGTH = 997
"""Steps of the imagined run over which the probe's times are spread: long, so `rd` varies."""

CLOSE = 1e-9
"""Relative difference below which two outputs count as equal."""


@dataclass(frozen=True, slots=True)
class Screening:
    """What the screen found.

    Attributes:
        ok: Whether the rule is worth training.
        reason: Why not; empty when ok.
        cosine: Mean cosine between update and gradient in the paper's descent test; NaN when the
            rule is refused before the test.
        trajectory_cosine: Smallest cosine over the steps of the trajectory test; or NaN.
        fingerprint: Key of the function.
        scale_fingerprint: Key of the function up to a positive factor.
    """

    ok: bool
    reason: str
    cosine: float
    trajectory_cosine: float
    fingerprint: str
    scale_fingerprint: str


@dataclass(frozen=True, slots=True)
class Screen:
    """The screen's settings; calling it with a rule screens the rule.

    Args:
        descent: The mean cosine of the descent test must exceed this; None switches it off.
        trajectory: The smallest cosine of the trajectory test must exceed this; None: off.
        seed: Seed of the gradients of both tests (fingerprints do not depend on it).
    """

    descent: float | None = 0.15
    trajectory: float | None = 0.05
    seed: int = 0

    @classmethod
    def paper(cls, seed: int = 0) -> Screen:
        """Return the paper's screen: its descent test alone."""
        return cls(trajectory=None, seed=seed)

    def __call__(self, rule: Rule) -> Screening:
        """Screen a rule; deterministic, whatever the rule computes."""
        probe, descent_gradients, small_gradients = _probe(self.seed)
        with np.errstate(all="ignore"):
            recorded, descent, small = probe.run(rule)
            codes = fingerprints(recorded)
            reason = _malformed(recorded)
            if reason:
                return Screening(False, reason, math.nan, math.nan, *codes)
            cosine = float(_cosines(descent.reshape(25, 25), descent_gradients).mean())
            smallest = float(_cosines(small, small_gradients).min())
        reason = self._refuse(cosine, smallest)
        return Screening(not reason, reason, cosine, smallest, *codes)

    def _refuse(self, cosine: float, along: float) -> str:
        # Written so that a cosine that is not a number fails.
        if self.descent is not None and not cosine > self.descent:
            return "fails the descent test"
        if self.trajectory is not None and not along > self.trajectory:
            return "fails the trajectory descent test"
        return ""


def screen(
    rule: Rule, *, descent: bool = True, trajectory: bool = True, seed: int = 0
) -> Screening:
    """Check a rule without training it.

    Args:
        rule: The rule.
        descent: Whether to apply the paper's descent test.
        trajectory: Whether to apply the trajectory descent test.
        seed: Seed of the tests' gradients.
    """
    settings = Screen(seed=seed)
    return Screen(
        settings.descent if descent else None, settings.trajectory if trajectory else None, seed
    )(rule)


# The probe of the fingerprint: enough steps for slow averages to leave their start, recorded at
# some of them (never the first, where m1 = g and m2 = g2).
STEPS, COLUMNS = 400, 30
RECORDED = range(24, STEPS, 25)

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


def _history() -> Trajectory:
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
    return Trajectory(gradients, _times(), COLUMNS, RECORDED)


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


def _descent(rng: random.Random) -> Trajectory:
    """25 gradients of dimension 25, at the first step of a fresh state."""
    taus = torch.tensor([0.3], dtype=torch.float64)
    return Trajectory(gaussian(rng, 1, 625, 1 / 60), taus, 625, range(1))


def _small_steps(rng: random.Random) -> Trajectory:
    """Five steps of small gradients, a third of the entries exactly 0, all over the run."""
    gradients = gaussian(rng, 5, 150, 0.003)
    for row in gradients:
        row[rng.sample(range(150), 50)] = 0.0
    taus = torch.tensor([0.03, 0.27, 0.51, 0.76, 0.98], dtype=torch.float64)
    return Trajectory(gradients, taus, 150, range(5))


@lru_cache(maxsize=8)
def _probe(seed: int) -> tuple[Probe, Array, Array]:
    """Return the probe, and the gradients of the two descent tests as rows of length 1."""
    rng = random.Random(seed)  # noqa: S311
    descent, small = _descent(rng), _small_steps(rng)
    rows = [descent.gradients.numpy().reshape(25, 25), small.gradients.numpy()]
    units = [row / np.linalg.norm(row, axis=1, keepdims=True) for row in rows]
    return Probe([_history(), descent, small], seed=0), units[0], units[1]


def _cosines(updates: Array, unit_gradients: Array) -> Array:
    """Return the cosine of each row; 0 for a zero update, NaN for one that is not finite."""
    products = np.einsum("ij,ij->i", updates, unit_gradients)
    norms = np.sqrt(np.einsum("ij,ij->i", updates, updates))
    norms[norms == 0] = 1.0
    return np.asarray(products / norms)


def _malformed(recorded: Array) -> str:
    """Return what makes a rule not worth a look, from its output on the probe."""
    finite = np.isfinite(recorded)
    inside = recorded[finite]
    if not inside.size:
        return "is nowhere finite"
    low, high = inside.min(), inside.max()
    if high - low <= CLOSE * max(abs(low), abs(high)):
        return "is constant"
    one, other = recorded[:, :COLUMNS], recorded[:, COLUMNS:]
    differ = np.abs(one - other) > CLOSE * np.abs(one)  # False where either is NaN
    if not differ.any() and (finite[:, :COLUMNS] == finite[:, COLUMNS:]).all():
        return "does not depend on the gradient"
    return ""


def agree(rule: Rule, other: Rule) -> bool:
    """Return whether two rules give the same updates on the probe, up to the division guard.

    Looser than equal fingerprints: x/y is x/(y ± 1e-8), so forms that divide differently differ
    a little at small gradients; where one is finite and the other is not, or at exact zeros, a
    difference counts.
    """
    probe, *_ = _probe(0)
    with np.errstate(all="ignore"):
        one, two = probe.run(rule)[0], probe.run(other)[0]
        size = np.maximum(np.abs(one), np.abs(two))
        same = (np.abs(one - two) <= 1e-2 * size) | (one == two) | (np.isnan(one) & np.isnan(two))
    return bool(same.all())
