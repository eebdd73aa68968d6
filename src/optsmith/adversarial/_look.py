"""Evaluation of a model on images: losses, gradients, and which images are misclassified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from optsmith._errors import TaskError

Model = nn.Module | Callable[[Tensor], Tensor]
"""Maps images in [0, 1] to one row of logits per image."""

BATCH = 128
"""Default images per batch: small networks are fastest while activations fit in the cache."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The model's evaluation of one point per image.

    Attributes:
        losses: Cross-entropy per image.
        fooled: Whether each image is misclassified.
        gradients: Gradient of each image's own loss, independent of the other images, with
            non-finite values set to 0. None if not requested.
    """

    losses: Tensor
    fooled: Tensor
    gradients: Tensor | None = None

    def keep(self, rows: Tensor) -> Seen:
        """Return the evaluation of the images `rows`."""
        gradients = None if self.gradients is None else self.gradients[rows]
        return Seen(self.losses[rows], self.fooled[rows], gradients)

    @property
    def slopes(self) -> Tensor:
        """The gradients, which must have been requested."""
        if self.gradients is None:
            raise TaskError("the gradients were not requested")
        return self.gradients


def look(
    model: Model, points: Tensor, labels: Tensor, gradient: bool = True, batch_size: int = BATCH
) -> Seen:
    """Evaluate a model on images.

    Args:
        model: The model, in evaluation mode.
        points: The images.
        labels: Their true classes.
        gradient: Whether to compute gradients.
        batch_size: Images per batch.

    Raises:
        TaskError: The model does not return one row of logits per image, or a label is out of
            range.
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
        # With respect to the images only: the parameters' gradients are left alone.
        [slopes] = torch.autograd.grad(losses.sum(), [points])
        slopes = slopes.nan_to_num_(0.0, 0.0, 0.0)
    return Seen(losses.detach(), logits.detach().argmax(1) != labels, slopes)


def _check_logits(logits: Tensor, labels: Tensor) -> None:
    if not isinstance(logits, Tensor) or logits.dim() != 2 or len(logits) != len(labels):
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise TaskError(
            f"the model must return logits of shape ({len(labels)}, classes), one row per image,"
            f" not {shape}"
        )
    if len(labels) and int(labels.max()) >= logits.shape[1]:
        raise TaskError(
            f"the model has {logits.shape[1]} classes, so labels must be 0 … {logits.shape[1] - 1},"
            f" not {int(labels.max())}"
        )


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Put a model into evaluation mode, and restore the mode of every submodule on exit."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
