"""Checks of a rule without training: well-formedness, descent tests, and fingerprints."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from optsmith.rules import Rule
from optsmith.screening._fingerprint import Array, fingerprints
from optsmith.screening._history import COLUMNS, history, short_history
from optsmith.screening._limits import state_bytes_of, step_cost_of
from optsmith.screening._misapplied import misapplied
from optsmith.screening._parts import Probes, outputs
from optsmith.screening._probe import Probe
from optsmith.screening._trajectory import Trajectory, drifting, gaussian

CLOSE = 1e-9
"""Relative difference below which two outputs count as equal."""


@dataclass(frozen=True, slots=True)
class Screening:
    """Result of screening a rule.

    Attributes:
        ok: Whether the rule passed.
        reason: Why it failed; empty if it passed.
        cosine: Mean cosine between update and gradient in the paper's descent test; NaN if the
            rule failed before the test. If the rule treats kinds of parameters differently, the
            smallest of theirs.
        trajectory_cosine: Smallest cosine over the steps of the trajectory test, or NaN.
        fingerprint: Code of the function.
        scale_fingerprint: Code of the function up to a positive factor.
    """

    ok: bool
    reason: str
    cosine: float
    trajectory_cosine: float
    fingerprint: str
    scale_fingerprint: str


@dataclass(frozen=True, slots=True)
class Screen:
    """Screens rules, with thresholds for the descent tests.

    Args:
        descent: Threshold for the mean cosine of the descent test; None disables the test.
        trajectory: Threshold for the smallest cosine of the trajectory test; None disables it.
        seed: Seed of the gradients of both tests. Fingerprints do not depend on it.
        max_state_bytes: Largest number of bytes of optimizer state per parameter, in single
            precision; None: no limit.
        max_step_cost: Largest cost of a step as a multiple of Adam's, by the model of
            `step_cost_of`; None: no limit.
    """

    descent: float | None = 0.15
    trajectory: float | None = 0.05
    seed: int = 0
    max_state_bytes: float | None = None
    max_step_cost: float | None = None

    @classmethod
    def paper(cls, seed: int = 0) -> Screen:
        """Return the paper's screen, which has the descent test only."""
        return cls(trajectory=None, seed=seed)

    def __call__(self, rule: Rule) -> Screening:
        """Return the result of screening a rule, which is deterministic."""
        probes, descent_gradients, small_gradients = _probes(self.seed)
        with np.errstate(all="ignore"):
            parts = outputs(probes.fitting(rule), rule)
            codes = fingerprints(*(recorded for recorded, _, _ in parts))
            different = [p for i, p in enumerate(parts) if i == 0 or p is not parts[i - 1]]
            reason = misapplied(rule) or next(
                (why for recorded, _, _ in different if (why := _malformed(recorded))), ""
            )
            reason = reason or self.exceeded(rule)
            if reason:
                return Screening(False, reason, math.nan, math.nan, *codes)
            cosine = min(
                (
                    float(_cosines(x.reshape(25, 25), descent_gradients).mean())
                    for _, x, _ in different
                ),
                key=_nan_first,
            )
            smallest = min(
                (float(_cosines(x, small_gradients).min()) for _, _, x in different), key=_nan_first
            )
        reason = self._refuse(cosine, smallest)
        return Screening(not reason, reason, cosine, smallest, *codes)

    def exceeded(self, rule: Rule) -> str:
        """Return which limit on state or cost a rule exceeds, or ""."""
        if self.max_state_bytes is not None and state_bytes_of(rule) > self.max_state_bytes:
            return "has too much state"
        if self.max_step_cost is not None and step_cost_of(rule) > self.max_step_cost:
            return "has too costly a step"
        return ""

    def _refuse(self, cosine: float, along: float) -> str:
        # `not >` instead of `<=`, so that NaN fails.
        if self.descent is not None and not cosine > self.descent:
            return "fails the descent test"
        if self.trajectory is not None and not along > self.trajectory:
            return "fails the trajectory descent test"
        return ""


def screen(
    rule: Rule, *, descent: bool = True, trajectory: bool = True, seed: int = 0
) -> Screening:
    """Return the result of checking a rule without training.

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


WEIGHTS = 0.05
"""Typical size of the weights of the descent tests, that of a layer with 400 inputs."""


def _descent(rng: random.Random, weights: random.Random) -> Trajectory:
    """Return the gradients of the descent test: 25 of dimension 25, at the first step."""
    taus = torch.tensor([0.3], dtype=torch.float64)
    gradients = gaussian(rng, 1, 625, 1 / 60)
    values = drifting(weights, 1, 625, WEIGHTS)
    return Trajectory(gradients, taus, 625, range(1), (25, 25), values)


def _small_steps(rng: random.Random, weights: random.Random) -> Trajectory:
    """Return the gradients of the trajectory test: five steps, small, a third exactly 0."""
    gradients = gaussian(rng, 5, 150, 0.003)
    for row in gradients:
        row[rng.sample(range(150), 50)] = 0.0
    taus = torch.tensor([0.03, 0.27, 0.51, 0.76, 0.98], dtype=torch.float64)
    values = drifting(weights, 5, 150, WEIGHTS)
    return Trajectory(gradients, taus, 150, range(5), (10, 15), values)


@lru_cache(maxsize=8)
def _probes(seed: int) -> tuple[Probes, Array, Array]:
    """Return the probes, and the gradients of the two descent tests as rows of norm 1."""
    # Two generators, so that the gradients are those of studies from before there were weights.
    rng, weights = random.Random(seed), random.Random(f"weights {seed}")  # noqa: S311
    descent, small = _descent(rng, weights), _small_steps(rng, weights)
    rows = [descent.gradients.numpy().reshape(25, 25), small.gradients.numpy()]
    units = [row / np.linalg.norm(row, axis=1, keepdims=True) for row in rows]
    whole = history()
    histories = (whole, short_history(whole))
    probes = Probes(*(Probe([one, descent, small], seed=0) for one in histories))
    return probes, units[0], units[1]


def _nan_first(x: float) -> tuple[bool, float]:
    return not math.isnan(x), x


def _cosines(updates: Array, unit_gradients: Array) -> Array:
    """Return the cosine of each row: 0 for a zero update, NaN for a non-finite one."""
    products = np.einsum("ij,ij->i", updates, unit_gradients)
    norms = np.sqrt(np.einsum("ij,ij->i", updates, updates))
    norms[norms == 0] = 1.0
    return np.asarray(products / norms)


def _malformed(recorded: Array) -> str:
    """Return why a rule is malformed, judged by its output on the probe, or ""."""
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
    """Return whether two rules have the same output on the probe, up to the division guard.

    The criterion is looser than equal fingerprints: x/y is computed as x/(y ± 1e-8), so equivalent
    forms with different divisions differ slightly at small gradients. Differences between finite
    and non-finite values, and at exact zeros, count.
    """
    probe = _probes(0)[0].fitting(rule, other)
    with np.errstate(all="ignore"):
        pairs = zip(outputs(probe, rule), outputs(probe, other), strict=True)
        return all(_close(one[0], two[0]) for one, two in pairs)


def _close(one: Array, two: Array) -> bool:
    size = np.maximum(np.abs(one), np.abs(two))
    same = (np.abs(one - two) <= 1e-2 * size) | (one == two) | (np.isnan(one) & np.isnan(two))
    return bool(same.all())
