"""The feasible set of an attack: a ball around each image, intersected with the box [0, 1]."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from optsmith._errors import TaskError

NORMS = ("linf", "l2")


@dataclass(frozen=True, slots=True)
class Ball:
    """A ball around each image of a batch, intersected with the box [0, 1].

    Attributes:
        centres: The original images, one per row.
        eps: Radius.
        norm: `linf`, the largest change of a pixel, or `l2`, the Euclidean norm of the change.

    Raises:
        TaskError: The norm or the radius is invalid.
    """

    centres: Tensor
    eps: float
    norm: str = "linf"

    def __post_init__(self) -> None:
        check_ball(self.eps, self.norm)

    def project(self, points: Tensor) -> Tensor:
        """Return the points projected onto the ball and the box.

        The projection is exact for `linf`. For `l2` the change is rescaled to the ball, then
        clamped to the box, which only shortens it further.
        """
        if self.norm == "linf":
            near = torch.clamp(points, self.centres - self.eps, self.centres + self.eps)
        else:
            change = points - self.centres
            # Slightly smaller than the radius, so that rounding does not leave the ball.
            factor = (self.eps * (1 - 1e-6) / lengths(change)).clamp(max=1.0)
            near = self.centres + change * factor
        return near.clamp(0.0, 1.0)

    def random(self, generator: torch.Generator) -> Tensor:
        """Return a random point per image, uniform in the ball, then clamped to the box.

        The numbers are drawn on the CPU, so they are the same on every device.
        """
        shape = self.centres.shape
        if self.norm == "linf":
            change = 2 * torch.rand(shape, generator=generator) - 1
        else:
            change = torch.randn(shape, generator=generator)
            radius = torch.rand(len(change), generator=generator) ** (1 / change[0].numel())
            change = change / lengths(change) * per_image(radius, change)
        return self.project(self.centres + self.eps * change.to(self.centres))

    def keep(self, rows: Tensor) -> Ball:
        """Return the ball around the images `rows`."""
        return Ball(self.centres[rows], self.eps, self.norm)


def check_ball(eps: float, norm: str) -> None:
    """Check a radius and a norm.

    Raises:
        TaskError: One of them is invalid.
    """
    if norm not in NORMS:
        raise TaskError(f'norm must be one of {", ".join(NORMS)}, not "{norm}"')
    if not 0 < eps < math.inf:
        raise TaskError(f"eps, the radius of an attack, must be above 0 and finite, not {eps}")


def per_image(values: Tensor, like: Tensor) -> Tensor:
    """Return one value per image, reshaped to broadcast against images."""
    return values.view(-1, *[1] * (like.dim() - 1))


def lengths(changes: Tensor) -> Tensor:
    """Return the Euclidean norm of the change of each image; never 0, so it can be a divisor."""
    found = changes.flatten(1).norm(dim=1).clamp(min=torch.finfo(changes.dtype).tiny)
    return per_image(found, changes)
