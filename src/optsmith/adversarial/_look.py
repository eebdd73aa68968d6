"""What an attack sees of a model: loss, gradient, and whether the image is misclassified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from optsmith._errors import TaskError

Model = nn.Module | Callable[[Tensor], Tensor]
"""Maps images in [0, 1] to one row of logits an image."""

BATCH = 128
"""Images at a time: small networks are quickest when their activations stay in the cache."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen at one point of each image.

    Attributes:
        losses: Cross-entropy of each image.
        fooled: Whether each is misclassified.
        gradients: Of each image's own loss, so that it does not depend on the others; what is not
            finite is 0. None when it was not asked for.
    """

    losses: Tensor
    fooled: Tensor
    gradients: Tensor | None = None

    def keep(self, rows: Tensor) -> Seen:
        """Return what was seen of some of the images."""
        gradients = None if self.gradients is None else self.gradients[rows]
        return Seen(self.losses[rows], self.fooled[rows], gradients)

    @property
    def slopes(self) -> Tensor:
        """The gradients, which were asked for."""
        if self.gradients is None:
            raise TaskError("the gradient was not asked for")
        return self.gradients


def look(
    model: Model, points: Tensor, labels: Tensor, gradient: bool = True, batch_size: int = BATCH
) -> Seen:
    """Return what a model makes of images.

    Args:
        model: The model, in its evaluation mode.
        points: The images.
        labels: Their true classes.
        gradient: Whether gradients are wanted.
        batch_size: Images at a time.

    Raises:
        TaskError: The model does not give a row of logits an image, or has fewer classes than
            the labels.
    """
    pairs = zip(torch.split(points, batch_size), torch.split(labels, batch_size), strict=True)
    parts = [_look(model, some, classes, gradient) for some, classes in pairs]
    if len(parts) == 1:
        return parts[0]
    return Seen(
        torch.cat([part.losses for part in parts]),
        torch.cat([part.fooled for part in parts]),
        torch.cat([part.slopes for part in parts]) if gradient else None,
    )


def _look(model: Model, points: Tensor, labels: Tensor, gradient: bool) -> Seen:
    points = points.detach().requires_grad_(gradient)
    with torch.set_grad_enabled(gradient):
        logits = model(points)
        _check_logits(logits, labels)
        losses = cross_entropy(logits, labels, reduction="none")
    slopes = None
    if gradient:
        # Of the images alone: the parameters' gradients are neither computed nor touched.
        [slopes] = torch.autograd.grad(losses.sum(), [points])
        slopes = slopes.nan_to_num_(0.0, 0.0, 0.0)
    return Seen(losses.detach(), logits.detach().argmax(1) != labels, slopes)


def _check_logits(logits: Tensor, labels: Tensor) -> None:
    if not isinstance(logits, Tensor) or logits.dim() != 2 or len(logits) != len(labels):
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise TaskError(
            f"the model must give a row of logits an image, of shape ({len(labels)}, classes),"
            f" not {shape}"
        )
    if len(labels) and int(labels.max()) >= logits.shape[1]:
        raise TaskError(
            f"the model has {logits.shape[1]} classes, so labels are 0 … {logits.shape[1] - 1},"
            f" not {int(labels.max())}"
        )


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Put a model into its evaluation mode, and every part back as it was after."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
