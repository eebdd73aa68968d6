"""Attacks with an update rule, `x <- Proj(x + lr * rule(gradient))`, and PGD."""

from __future__ import annotations

import math
from typing import Unpack

import torch
from torch import Tensor

from optsmith._errors import TaskError
from optsmith._zoo import named_rule
from optsmith.adversarial._ball import Ball, lengths
from optsmith.adversarial._climb import AttackOptions, climb
from optsmith.adversarial._look import Model, Seen
from optsmith.adversarial._result import AttackResult
from optsmith.optim import Program, math_dtype
from optsmith.rules import Rule


def attack(
    model: Model,
    images: Tensor,
    labels: Tensor,
    rule: Rule | str,
    eps: float,
    steps: int,
    *,
    lr: float,
    **options: Unpack[AttackOptions],
) -> AttackResult:
    """Attack images with an update rule: maximise the loss within a ball around each image.

    Each step adds `lr * rule(gradient)`, where the gradient is that of the image's own
    cross-entropy, and projects onto the ball around the original image and the box [0, 1]. Pixels
    with a non-finite update are left unchanged. The best point visited is returned. Up to rounding,
    the result of an image depends neither on the other images nor on the batch size.

    Args:
        model: Maps images in [0, 1] to logits; it is run in evaluation mode.
        images: Images in [0, 1], of shape (count, channels, height, width).
        labels: Their true classes.
        rule: The rule, its text, or its name in the zoo.
        eps: Radius of the ball.
        steps: Number of steps; also `total_steps` of the rule's decays.
        lr: Learning rate.
        **options: See `AttackOptions`.

    Raises:
        TaskError: Images, labels or a setting are invalid.
        RuleError: The text is not a rule.
    """
    _check_lr(lr)
    program = Program(named_rule(rule) if isinstance(rule, str) else rule)

    def make(points: Tensor, first: int) -> RuleStepper:
        return RuleStepper(program, points, first, lr, steps, options.get("seed", 0))

    options.setdefault("random_start", False)
    return climb(model, images, labels, eps, steps, make, **options)


def pgd(
    model: Model,
    images: Tensor,
    labels: Tensor,
    eps: float,
    steps: int,
    *,
    lr: float | None = None,
    **options: Unpack[AttackOptions],
) -> AttackResult:
    """Attack images with projected gradient descent (PGD) with a constant step size.

    Steps follow the sign of the gradient for `linf`, as `attack` does with the rule `sign(g)`, and
    the normalised gradient for `l2`.

    Args:
        model: Maps images in [0, 1] to logits; it is run in evaluation mode.
        images: Images in [0, 1], of shape (count, channels, height, width).
        labels: Their true classes.
        eps: Radius of the ball.
        steps: Number of steps.
        lr: Step size; defaults to 2.5 * eps / steps, enough to cross the ball.
        **options: See `AttackOptions`.

    Raises:
        TaskError: Images, labels or a setting are invalid.
    """
    if lr is not None:
        _check_lr(lr)

    def make(points: Tensor, first: int) -> DirectionStepper:
        return DirectionStepper(2.5 * eps / steps if lr is None else lr)

    return climb(model, images, labels, eps, steps, make, **options)


class RuleStepper:
    """Stepper that applies an update rule, with the rule's state per pixel.

    Args:
        program: The compiled rule.
        points: Starting points of the batch.
        first: Index of its first image, so that `drop` masks do not depend on the batch size.
        lr: Learning rate.
        steps: Number of steps of the run.
        seed: Seed of `drop` masks.
    """

    def __init__(
        self, program: Program, points: Tensor, first: int, lr: float, steps: int, seed: int
    ) -> None:
        self.program, self.lr, self.steps = program, lr, steps
        self.state = program.init(points, copies=True)  # each image is a tensor
        self.keys = program.keys(seed, 0)
        size = points[0].numel()
        elements = torch.arange(first * size, (first + len(points)) * size, device=points.device)
        self.elements = elements.view(points.shape)

    def step(self, t: int, points: Tensor, seen: Seen, ball: Ball) -> Tensor:
        """Return the points after step t."""
        program, dtype = self.program, math_dtype(points.dtype)
        scalars = program.tensors(program.scalars(t, self.steps, t), dtype)
        noise = program.uniforms(self.keys, t, self.elements, dtype)
        slopes = seen.slopes.to(dtype)
        update, self.state = program.apply(
            slopes, self.state, scalars, noise, copies=True, parameter=points.to(dtype)
        )
        moved = points + self.lr * update.to(points.dtype)
        return ball.project(torch.where(moved.isfinite(), moved, points))

    def keep(self, rows: Tensor) -> None:
        """Drop the state of all images but `rows`."""
        self.state = tuple(tensor[rows] for tensor in self.state)
        self.elements = self.elements[rows]


class DirectionStepper:
    """Stepper of PGD: constant step size along the direction of steepest ascent.

    Args:
        length: Step size in the norm of the ball.
    """

    def __init__(self, length: float) -> None:
        self.length = length

    def step(self, t: int, points: Tensor, seen: Seen, ball: Ball) -> Tensor:
        """Return the points after step t."""
        return ball.project(points + self.length * steepest(seen.slopes, ball.norm))

    def keep(self, rows: Tensor) -> None:
        """Do nothing: there is no state per image."""


def steepest(gradients: Tensor, norm: str) -> Tensor:
    """Return the direction of steepest ascent, of length 1 in the given norm."""
    return gradients.sign() if norm == "linf" else gradients / lengths(gradients)


def _check_lr(lr: float) -> None:
    if not 0 < lr < math.inf:
        raise TaskError(f"lr must be above 0 and finite, not {lr}")
