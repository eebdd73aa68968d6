"""The loop of every attack: look, step, look again; only the step differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from optsmith._errors import TaskError
from optsmith.adversarial._ball import Ball, check_ball
from optsmith.adversarial._look import BATCH, Model, Seen, evaluating, look
from optsmith.adversarial._result import AttackResult, Record, join


class Stepper(Protocol):
    """How one batch of images climbs; it may remember what it saw."""

    def step(self, t: int, points: Tensor, seen: Seen, ball: Ball) -> Tensor:
        """Return the points after step t, from 1, inside the ball."""

    def keep(self, rows: Tensor) -> None:
        """Go on with some of the images alone."""


MakeStepper = Callable[[Tensor, int], Stepper]
"""Makes the stepper of a batch from its starting points and the number of its first image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every attack can be told.

    Attributes:
        eps: Radius of the ball.
        steps: Steps.
        norm: `linf` or `l2`.
        random_start: Whether to start from a random point of the ball.
        seed: Seed of that point.
        batch_size: Images at a time; results do not depend on it.
        early_exit: Whether an image is left alone once it is misclassified.
        device: Where to compute; None is where the model is.

    Raises:
        TaskError: A setting makes no sense.
    """

    eps: float
    steps: int
    norm: str = "linf"
    random_start: bool = False
    seed: int = 0
    batch_size: int = BATCH
    early_exit: bool = False
    device: str | torch.device | None = None

    def __post_init__(self) -> None:
        check_ball(self.eps, self.norm)
        for name in ("steps", "batch_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise TaskError(f"{name} must be a whole number from 1, not {value}")


def climb(
    model: Model, images: Tensor, labels: Tensor, settings: Settings, make: MakeStepper
) -> AttackResult:
    """Attack images in batches; each climbs by a stepper of its own.

    Raises:
        TaskError: The images or labels are not what they should be.
    """
    check_images(images, labels)
    device = torch.device(settings.device) if settings.device is not None else _home(model, images)
    ball = Ball(images.detach(), settings.eps, settings.norm)
    starts = ball.centres
    if settings.random_start:
        starts = ball.random(torch.Generator().manual_seed(settings.seed))
    records = []
    with evaluating(model):
        for first in range(0, len(images), settings.batch_size):
            rows = slice(first, first + settings.batch_size)
            near = Ball(ball.centres[rows].to(device), ball.eps, ball.norm)
            points, classes = starts[rows].to(device), labels[rows].to(device).long()
            records.append(_climb(model, near, points, classes, settings, make(points, first)))
    return join(records, images.device)


def _climb(
    model: Model, ball: Ball, points: Tensor, labels: Tensor, settings: Settings, stepper: Stepper
) -> Record:
    """Attack one batch."""
    record = Record(points, settings.steps)
    rows = torch.arange(len(points), device=points.device)
    seen = look(model, points, labels)
    record.add(0, rows, points, seen)
    for t in range(1, settings.steps + 1):
        if settings.early_exit and bool(seen.fooled.any()):
            going = (~seen.fooled).nonzero().flatten()
            if not len(going):
                break
            rows, points, labels = rows[going], points[going], labels[going]
            seen, ball = seen.keep(going), ball.keep(going)
            stepper.keep(going)
        points = stepper.step(t, points, seen, ball)
        seen = look(model, points, labels, gradient=t < settings.steps)
        record.add(t, rows, points, seen)
    return record


def check_images(images: Tensor, labels: Tensor) -> None:
    """Check that images can be attacked.

    Raises:
        TaskError: They cannot; the message says why.
    """
    if not images.is_floating_point():
        raise TaskError(f"images are numbers in [0, 1], not {images.dtype}: divide by 255 first")
    if images.dim() != 4 or not len(images):
        raise TaskError(
            f"images have the shape (count, channels, height, width), not {tuple(images.shape)}"
        )
    low, high = float(images.min()), float(images.max())
    if not (low >= 0 and high <= 1):  # also false for NaN
        raise TaskError(f"images are numbers in [0, 1], but these reach from {low:g} to {high:g}")
    check_labels(labels, len(images))


def check_labels(labels: Tensor, count: int) -> None:
    """Check that labels can be those of so many images.

    Raises:
        TaskError: They cannot.
    """
    if labels.shape != (count,) or labels.is_floating_point() or labels.is_complex():
        raise TaskError(
            f"labels are {count} whole numbers, one an image, not {labels.dtype} of shape"
            f" {tuple(labels.shape)}"
        )
    if int(labels.min()) < 0:
        raise TaskError(f"labels are classes from 0, not {int(labels.min())}")


def _home(model: Model, images: Tensor) -> torch.device:
    parameters = model.parameters() if isinstance(model, nn.Module) else iter(())
    first = next(parameters, None)
    return images.device if first is None else first.device
