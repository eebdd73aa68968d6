"""Attacks by a rule, the step inside the projection: `x <- Proj(x + lr * rule(gradient))`."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from optsmith._errors import TaskError
from optsmith._zoo import named_rule
from optsmith.adversarial._ball import Ball, lengths
from optsmith.adversarial._climb import Settings, climb
from optsmith.adversarial._look import BATCH, Model, Seen
from optsmith.adversarial._result import AttackResult
from optsmith.optim import Program
from optsmith.optim._program import math_dtype
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
    norm: str = "linf",
    random_start: bool = False,
    seed: int = 0,
    batch_size: int = BATCH,
    early_exit: bool = False,
    device: str | torch.device | None = None,
) -> AttackResult:
    """Look for images near the given ones that a model misclassifies, climbing by an update rule.

    Each step adds `lr * rule(gradient)`, where the gradient is that of the image's own
    cross-entropy, and projects onto the ball around the original and the box [0, 1]. Where the
    update is not finite, the pixel stays as it is. The best point visited is kept. An image's
    result does not depend on the others, nor on the size of the batches, up to rounding.

    Args:
        model: Maps images in [0, 1] to logits; it is run in its evaluation mode.
        images: Of shape (count, channels, height, width), in [0, 1].
        labels: Their true classes.
        rule: The rule, its text, or its name in the zoo.
        eps: Radius of the ball.
        steps: Steps, which is also the length of the run for the rule's decays.
        lr: Learning rate.
        norm: `linf` or `l2`.
        random_start: Whether to start from a random point of the ball rather than the original.
        seed: Seed of the random start and of `drop` masks.
        batch_size: Images at a time.
        early_exit: Whether an image is left alone once it is misclassified.
        device: Where to compute; None is where the model is.

    Raises:
        TaskError: Images, labels or a setting make no sense.
        RuleError: The text is not a rule.
    """
    settings = Settings(
        eps=eps,
        steps=steps,
        norm=norm,
        random_start=random_start,
        seed=seed,
        batch_size=batch_size,
        early_exit=early_exit,
        device=device,
    )
    _check_lr(lr)
    program = Program(named_rule(rule) if isinstance(rule, str) else rule)

    def make(points: Tensor, first: int) -> RuleStepper:
        return RuleStepper(program, points, first, lr, steps, seed)

    return climb(model, images, labels, settings, make)


def pgd(
    model: Model,
    images: Tensor,
    labels: Tensor,
    eps: float,
    steps: int,
    *,
    lr: float | None = None,
    norm: str = "linf",
    random_start: bool = True,
    seed: int = 0,
    batch_size: int = BATCH,
    early_exit: bool = False,
    device: str | torch.device | None = None,
) -> AttackResult:
    """Attack by projected gradient descent: steps of one length along the sign of the gradient.

    For `l2` along the gradient itself. For `linf` it is `attack` with the rule `sign(g)`.

    Args:
        model: As for `attack`, like all that is not said here.
        images: The images.
        labels: Their true classes.
        eps: Radius of the ball.
        steps: Steps.
        lr: Length of a step; None is 2.5 * eps / steps, which can cross the ball.
        norm: `linf` or `l2`.
        random_start: Whether to start from a random point of the ball.
        seed: Seed of the random start.
        batch_size: Images at a time.
        early_exit: Whether an image is left alone once it is misclassified.
        device: Where to compute.

    Raises:
        TaskError: Images, labels or a setting make no sense.
    """
    settings = Settings(
        eps=eps,
        steps=steps,
        norm=norm,
        random_start=random_start,
        seed=seed,
        batch_size=batch_size,
        early_exit=early_exit,
        device=device,
    )
    length = 2.5 * eps / steps if lr is None else lr
    _check_lr(length)
    return climb(model, images, labels, settings, lambda *_: DirectionStepper(length))


class RuleStepper:
    """Steps by a rule, which has its state for each pixel.

    Args:
        program: The rule.
        points: Where the batch starts.
        first: Number of its first image, so that `drop` masks do not depend on batches.
        lr: Learning rate.
        steps: Length of the run.
        seed: Seed of `drop` masks.
    """

    def __init__(
        self, program: Program, points: Tensor, first: int, lr: float, steps: int, seed: int
    ) -> None:
        self.program, self.lr, self.steps = program, lr, steps
        self.state = program.init(points)
        self.keys = program.keys(seed, 0)
        size = points[0].numel()
        elements = torch.arange(first * size, (first + len(points)) * size, device=points.device)
        self.elements = elements.view(points.shape)

    def step(self, t: int, points: Tensor, seen: Seen, ball: Ball) -> Tensor:
        """Return the points after step t."""
        program, dtype = self.program, math_dtype(points.dtype)
        scalars = program.tensors(program.scalars(t, self.steps, t), dtype)
        noise = program.uniforms(self.keys, t, self.elements, dtype)
        update, self.state = program.apply(seen.slopes.to(dtype), self.state, scalars, noise)
        moved = points + self.lr * update.to(points.dtype)
        return ball.project(torch.where(moved.isfinite(), moved, points))

    def keep(self, rows: Tensor) -> None:
        """Go on with some of the images alone."""
        self.state = tuple(tensor[rows] for tensor in self.state)
        self.elements = self.elements[rows]


class DirectionStepper:
    """Steps of one length along the steepest direction.

    Args:
        length: Of a step, in the norm of the ball.
    """

    def __init__(self, length: float) -> None:
        self.length = length

    def step(self, t: int, points: Tensor, seen: Seen, ball: Ball) -> Tensor:
        """Return the points after step t."""
        return ball.project(points + self.length * steepest(seen.slopes, ball.norm))

    def keep(self, rows: Tensor) -> None:
        """Go on with some of the images alone; there is nothing to forget."""


def steepest(gradients: Tensor, norm: str) -> Tensor:
    """Return the direction of length 1 in a norm along which the loss rises most."""
    return gradients.sign() if norm == "linf" else gradients / lengths(gradients)


def _check_lr(lr: float) -> None:
    if not 0 < lr < math.inf:
        raise TaskError(f"lr must be above 0 and finite, not {lr}")
