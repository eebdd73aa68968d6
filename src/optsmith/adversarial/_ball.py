"""The points that an attack may visit: near the original image, and images themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from optsmith._errors import TaskError

NORMS = ("linf", "l2")


@dataclass(frozen=True, slots=True)
class Ball:
    """A ball around each of some images, cut to the box of images, [0, 1].

    Attributes:
        centres: The original images, one a row.
        eps: Radius.
        norm: `linf`, the largest change of a pixel, or `l2`, the Euclidean length of the change.

    Raises:
        TaskError: There is no such norm or radius.
    """

    centres: Tensor
    eps: float
    norm: str = "linf"

    def __post_init__(self) -> None:
        check_ball(self.eps, self.norm)

    def project(self, points: Tensor) -> Tensor:
        """Return points of the ball and the box: the nearest ones for `linf`.

        For `l2` the change is shortened, then cut to the box, which shortens it further.
        """
        if self.norm == "linf":
            near = torch.clamp(points, self.centres - self.eps, self.centres + self.eps)
        else:
            change = points - self.centres
            # Shrunk a little more than needed: rounding must not leave the ball.
            factor = (self.eps * (1 - 1e-6) / lengths(change)).clamp(max=1.0)
            near = self.centres + change * factor
        return near.clamp(0.0, 1.0)

    def random(self, generator: torch.Generator) -> Tensor:
        """Return a random point for each image, uniform in the ball before it is cut to the box.

        The numbers are drawn on the CPU, so that they are the same on every device.
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
        """Return the ball around some of the images."""
        return Ball(self.centres[rows], self.eps, self.norm)


def check_ball(eps: float, norm: str) -> None:
    """Check a radius and a norm.

    Raises:
        TaskError: They make no sense.
    """
    if norm not in NORMS:
        raise TaskError(f'a norm is one of {", ".join(NORMS)}, not "{norm}"')
    if not 0 < eps < math.inf:
        raise TaskError(f"eps, the radius of an attack, must be above 0 and finite, not {eps}")


def per_image(values: Tensor, like: Tensor) -> Tensor:
    """Return one value an image in a shape that goes with images."""
    return values.view(-1, *[1] * (like.dim() - 1))


def lengths(changes: Tensor) -> Tensor:
    """Return the Euclidean length of each row's change; never 0, so that one can divide by it."""
    found = changes.flatten(1).norm(dim=1).clamp(min=torch.finfo(changes.dtype).tiny)
    return per_image(found, changes)
