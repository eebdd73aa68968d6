"""The losses of a stack of model copies, from their outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.functional import cross_entropy

from optsmith.evaluation._copies import Part

Losses = Callable[[Any, Sequence[Part]], Tensor]
"""From stacked outputs and the batches to the loss of each copy."""

_IGNORED = -100
"""The class that torch's cross entropy leaves out."""


def losses_of(loss: Callable[[Any, Any], Tensor]) -> Losses:
    """Return a task's loss for stacked outputs."""
    shared, own = vmap(loss, in_dims=(0, None)), vmap(loss, in_dims=(0, 0))

    def by_vmap(outputs: Any, parts: Sequence[Part]) -> Tensor:
        if len(parts) == 1:
            losses: Tensor = shared(outputs, parts[0].targets)
        else:
            losses = own(outputs, _targets(parts))
        return losses

    def by_hand(outputs: Any, parts: Sequence[Part]) -> Tensor:
        if not _are_classes(outputs, parts[0].targets):
            return by_vmap(outputs, parts)
        return _cross_entropies(outputs, _targets(parts))

    # vmap runs cross entropy in Python, which takes as long as a small model itself.
    return by_hand if loss is cross_entropy else by_vmap


def repeat(tensor: Tensor, copies: int) -> Tensor:
    """Return a tensor as that of several copies, without copying it."""
    return tensor.expand(copies, *tensor.shape)


def _targets(parts: Sequence[Part]) -> Tensor:
    repeated = [repeat(p.targets, p.copies) for p in parts]
    return repeated[0] if len(parts) == 1 else torch.cat(repeated)


def _are_classes(outputs: Any, targets: Tensor) -> bool:
    """Return whether each example has one row of outputs and one class as its target."""
    return (
        isinstance(outputs, Tensor)
        and outputs.ndim == 3
        and targets.ndim == 1
        and not targets.is_floating_point()
    )


def _cross_entropies(outputs: Tensor, targets: Tensor) -> Tensor:
    by_example = cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
    counts = (targets != _IGNORED).sum(dim=1)
    return by_example.view(targets.shape).sum(dim=1) / counts
