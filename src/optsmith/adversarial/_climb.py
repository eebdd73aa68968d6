"""The loop that all attacks share: evaluate the model, take a step, record the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypedDict

import torch
from torch import Tensor, nn

from optsmith._errors import TaskError
from optsmith.adversarial._ball import Ball, check_ball
from optsmith.adversarial._look import BATCH, Model, Seen, evaluating, look
from optsmith.adversarial._result import AttackRecord, AttackResult, join


class Stepper(Protocol):
    """Computes the steps of one batch of images; may keep state between steps."""

    def step(self, t: int, points: Tensor, seen: Seen, ball: Ball) -> Tensor:
        """Return the points after step t, which starts at 1; they are inside the ball."""

    def keep(self, rows: Tensor) -> None:
        """Drop the state of all images but `rows`."""


MakeStepper = Callable[[Tensor, int], Stepper]
"""Returns the stepper of a batch, given its starting points and the index of its first image."""


class AttackOptions(TypedDict, total=False):
    """AttackOptions of `attack`, `pgd` and `apgd`.

    Attributes:
        norm: `linf`, the default, or `l2`.
        random_start: Whether to start from a random point of the ball instead of the original;
            False by default for `attack`, True for `pgd` and `apgd`.
        seed: Seed of the random start and of `drop` masks.
        batch_size: Images per batch; up to rounding, results do not depend on it.
        early_exit: Whether to stop attacking an image once it is misclassified.
        device: Device to compute on; defaults to the device of the model.
    """

    norm: str
    random_start: bool
    seed: int
    batch_size: int
    early_exit: bool
    device: str | torch.device | None


def climb(
    model: Model,
    images: Tensor,
    labels: Tensor,
    eps: float,
    steps: int,
    make: MakeStepper,
    *,
    norm: str = "linf",
    random_start: bool = True,
    seed: int = 0,
    batch_size: int = BATCH,
    early_exit: bool = False,
    device: str | torch.device | None = None,
) -> AttackResult:
    """Attack images in batches, each with its own stepper, and return the result.

    The arguments are those of `attack`, with its options one by one.

    Raises:
        TaskError: Images, labels or a setting are invalid.
    """
    check_ball(eps, norm)
    for name, value in (("steps", steps), ("batch_size", batch_size)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise TaskError(f"{name} must be a positive integer, not {value}")
    check_images(images, labels)
    where = torch.device(device) if device is not None else _home(model, images)
    ball = Ball(images.detach(), eps, norm)
    starts = ball.random(torch.Generator().manual_seed(seed)) if random_start else ball.centres
    records = []
    with evaluating(model):
        for first in range(0, len(images), batch_size):
            rows = slice(first, first + batch_size)
            near = Ball(ball.centres[rows].to(where), eps, norm)
            points, classes = starts[rows].to(where), labels[rows].to(where).long()
            stepper = make(points, first)
            records.append(_climb(model, near, points, classes, steps, early_exit, stepper))
    return join(records, images.device)


def _climb(
    model: Model,
    ball: Ball,
    points: Tensor,
    labels: Tensor,
    steps: int,
    early_exit: bool,
    stepper: Stepper,
) -> AttackRecord:
    """Attack one batch and return its record."""
    record = AttackRecord(points, steps)
    rows = torch.arange(len(points), device=points.device)
    seen = look(model, points, labels)
    record.add(0, rows, points, seen)
    for t in range(1, steps + 1):
        if early_exit and bool(seen.fooled.any()):
            going = (~seen.fooled).nonzero().flatten()
            if not len(going):
                break
            rows, points, labels = rows[going], points[going], labels[going]
            seen, ball = seen.keep(going), ball.keep(going)
            stepper.keep(going)
        points = stepper.step(t, points, seen, ball)
        seen = look(model, points, labels, gradient=t < steps)
        record.add(t, rows, points, seen)
    return record


def check_images(images: Tensor, labels: Tensor) -> None:
    """Check that images can be attacked.

    Raises:
        TaskError: The type, the shape or the range of images or labels is wrong.
    """
    if not images.is_floating_point():
        raise TaskError(
            f"images must be numbers in [0, 1], not {images.dtype}: divide by 255 first"
        )
    if images.dim() != 4 or not len(images):
        raise TaskError(
            f"images must be of shape (count, channels, height, width), not {tuple(images.shape)}"
        )
    low, high = float(images.min()), float(images.max())
    if not (low >= 0 and high <= 1):  # also false for NaN
        raise TaskError(f"images must be numbers in [0, 1], not from {low:g} to {high:g}")
    check_labels(labels, len(images))


def check_labels(labels: Tensor, count: int) -> None:
    """Check that there is one class index per image.

    Raises:
        TaskError: The type, the shape or the range of the labels is wrong.
    """
    if labels.shape != (count,) or labels.is_floating_point() or labels.is_complex():
        raise TaskError(
            f"labels must be {count} integers, one per image, not {labels.dtype} of shape"
            f" {tuple(labels.shape)}"
        )
    if int(labels.min()) < 0:
        raise TaskError(f"labels must be class indices from 0, not {int(labels.min())}")


def _home(model: Model, images: Tensor) -> torch.device:
    parameters = model.parameters() if isinstance(model, nn.Module) else iter(())
    first = next(parameters, None)
    return images.device if first is None else first.device
