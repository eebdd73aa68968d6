"""Auto-PGD (APGD): projected gradient descent with an adaptive step size.

Croce, Hein: Reliable evaluation of adversarial robustness with an ensemble of diverse
parameter-free attacks, ICML 2020.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from optsmith.adversarial._attack import steepest
from optsmith.adversarial._ball import Ball, per_image
from optsmith.adversarial._climb import AttackOptions, climb
from optsmith.adversarial._look import Model, Seen
from optsmith.adversarial._result import AttackResult

MOMENTUM = 0.75
"""Weight of the new step; the previous step has the rest."""

IMPROVING = 0.75
"""Share of the steps between checkpoints that must increase the loss, or the step is halved."""

CHECKED = (22, 41, 57, 70, 80, 87, 93, 99)
"""Checkpoints in percent of the run: windows of 22 %, each 3 % shorter, at least 6 %."""


def checkpoints(steps: int) -> frozenset[int]:
    """Return the steps after which the step size is checked."""
    return frozenset(percent * steps // 100 + 1 for percent in CHECKED)


def apgd(
    model: Model,
    images: Tensor,
    labels: Tensor,
    eps: float,
    steps: int,
    **options: Unpack[AttackOptions],
) -> AttackResult:
    """Attack images with APGD on the cross-entropy; there is no learning rate to choose.

    The initial step size is twice the radius. At each checkpoint, the step size of an image is
    halved and the image is reset to its best point so far if fewer than three quarters of the steps
    since the last checkpoint increased its loss, or if neither its step size nor its best loss
    changed since then.

    Args:
        model: Maps images in [0, 1] to logits; it is run in evaluation mode.
        images: Images in [0, 1], of shape (count, channels, height, width).
        labels: Their true classes.
        eps: Radius of the ball.
        steps: Number of steps.
        **options: See `AttackOptions`.

    Raises:
        TaskError: Images, labels or a setting are invalid.
    """

    def make(points: Tensor, first: int) -> ApgdStepper:
        return ApgdStepper(points, eps, steps)

    return climb(model, images, labels, eps, steps, make, **options)


class ApgdStepper:
    """Stepper of APGD, with a step size per image.

    Args:
        points: Starting points of the batch.
        eps: Radius of the ball.
        steps: Number of steps of the run.
    """

    def __init__(self, points: Tensor, eps: float, steps: int) -> None:
        self.checkpoints = checkpoints(steps)
        count = len(points)
        self.lengths = points.new_full((count,), 2 * eps)
        self.before = points
        self.best = points.clone()
        self.best_slopes = torch.zeros_like(points)
        self.best_loss = points.new_full((count,), -torch.inf)
        self.last_loss = self.best_loss.clone()
        self.rises = torch.zeros_like(self.best_loss)
        self.since = 0
        self.checked_loss = self.best_loss.clone()
        self.halved = torch.ones(count, dtype=torch.bool, device=points.device)

    def step(self, t: int, points: Tensor, seen: Seen, ball: Ball) -> Tensor:
        """Return the points after step t."""
        self._note(t, points, seen)
        slopes = seen.slopes
        if t - 1 in self.checkpoints:
            weak = per_image(self._check(), points)
            points = torch.where(weak, self.best, points)
            slopes = torch.where(weak, self.best_slopes, slopes)
        ahead = points + per_image(self.lengths, points) * steepest(slopes, ball.norm)
        change = ball.project(ahead) - points
        if t > 1:
            change = MOMENTUM * change + (1 - MOMENTUM) * (points - self.before)
        self.before = points
        return ball.project(points + change)

    def _note(self, t: int, points: Tensor, seen: Seen) -> None:
        """Record the outcome of the last step."""
        if t == 1:
            self.checked_loss = seen.losses
        else:
            self.rises += seen.losses > self.last_loss
            self.since += 1
        self.last_loss = seen.losses
        better = seen.losses > self.best_loss
        self.best_loss = torch.where(better, seen.losses, self.best_loss)
        rows = per_image(better, points)
        self.best = torch.where(rows, points, self.best)
        self.best_slopes = torch.where(rows, seen.slopes, self.best_slopes)

    def _check(self) -> Tensor:
        """Halve the step sizes that are too large; return a mask of these images."""
        stuck = ~self.halved & (self.best_loss <= self.checked_loss)
        weak = (self.rises < IMPROVING * self.since) | stuck
        self.lengths = torch.where(weak, self.lengths / 2, self.lengths)
        self.halved, self.checked_loss = weak, self.best_loss
        self.rises, self.since = torch.zeros_like(self.rises), 0
        return weak

    def keep(self, rows: Tensor) -> None:
        """Drop the state of all images but `rows`."""
        for name in (
            *("lengths", "before", "best", "best_slopes", "best_loss", "last_loss"),
            *("rises", "checked_loss", "halved"),
        ):
            setattr(self, name, getattr(self, name)[rows])
