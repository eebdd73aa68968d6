"""The losses of a stack of model copies, and their gradients with respect to the outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.functional import cross_entropy

from optsmith.training.stacked._functions import OnCopies, cross_entropies
from optsmith.training.stacked._gradients import Feed

Losses = Callable[[Any, Feed], Tensor]
"""A function of stacked outputs and the batches that returns the loss of each copy."""

Slopes = Callable[[Tensor, Feed], tuple[Tensor, Tensor]]
"""A function of outputs (copy, output, example) and batches that returns losses and gradients."""

_IGNORED = -100
"""The default `ignore_index` of torch's cross entropy."""


def losses_of(loss: Callable[[Any, Any], Tensor]) -> Losses:
    """Return the stacked version of a loss."""

    def one(outputs: Any, targets: Any) -> Tensor:
        with OnCopies():
            return loss(outputs, targets)

    shared, own = vmap(one, in_dims=(0, None)), vmap(one, in_dims=(0, 0))

    def by_vmap(outputs: Any, feed: Feed) -> Tensor:
        if len(feed.copies) == 1:
            losses: Tensor = shared(outputs, feed.targets[0])
        else:
            losses = own(outputs, feed.by_copy(feed.targets))
        return losses

    def by_hand(outputs: Any, feed: Feed) -> Tensor:
        if not _are_classes(outputs, feed.targets):
            return by_vmap(outputs, feed)
        return cross_entropies(outputs, feed.by_copy(feed.targets))

    # vmap itself takes as long as a small model.
    return by_hand if loss is cross_entropy else by_vmap


def slopes_of(loss: Callable[[Any, Any], Tensor], targets: Tensor) -> Slopes:
    """Return the stacked version of a loss with its gradient; `targets` are those of all data."""
    classes = targets.ndim == 1 and not targets.is_floating_point()
    if loss is cross_entropy and classes and not bool((targets == _IGNORED).any()):
        return _cross_entropy_slopes
    losses_by = losses_of(loss)

    def by_autograd(outputs: Tensor, feed: Feed) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            losses = losses_by(leaf.transpose(1, 2), feed)
            # Copies are independent, so the gradient of the sum is that of each loss.
            return losses.detach(), torch.autograd.grad(losses.sum(), leaf)[0]

    return by_autograd


def _cross_entropy_slopes(outputs: Tensor, feed: Feed) -> tuple[Tensor, Tensor]:
    targets = feed.by_copy(feed.targets).unsqueeze(1)
    log = outputs.log_softmax(dim=1)
    losses = log.gather(1, targets).mean(dim=(1, 2)).neg_()
    probabilities = log.exp_()
    taken = log.new_full((), -1.0).expand(targets.shape)
    return losses, probabilities.scatter_add_(1, targets, taken).div_(targets.shape[2])


def _are_classes(outputs: Any, targets: Tensor) -> bool:
    """Return whether the targets are class indices, for outputs of (copy, example, class, ...)."""
    return (
        isinstance(outputs, Tensor)
        and outputs.ndim >= 3
        and targets.ndim == outputs.ndim - 1
        and not targets.is_floating_point()
    )
