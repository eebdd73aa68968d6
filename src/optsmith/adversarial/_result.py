"""Results of attacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from optsmith.adversarial._look import Seen


@dataclass(frozen=True, slots=True)
class AttackResult:
    """The result of an attack, per image.

    Attributes:
        images: The best point visited per image, including the start: misclassified points first,
            then the highest loss.
        success: Whether that point, or equivalently any point visited, is misclassified.
        success_at_end: Whether the last point is misclassified.
        losses: Cross-entropy at the start and after each step, of shape (steps + 1, images); NaN
            after an early exit.
    """

    images: Tensor
    success: Tensor
    success_at_end: Tensor
    losses: Tensor

    @property
    def success_rate(self) -> float:
        """Share of images for which the attack succeeded."""
        return float(self.success.double().mean())

    @property
    def success_rate_at_end(self) -> float:
        """Share of images whose last point is misclassified."""
        return float(self.success_at_end.double().mean())


class AttackRecord:
    """Collects the result of one batch during an attack.

    Args:
        points: Starting points of the images.
        steps: Number of steps of the attack.
    """

    def __init__(self, points: Tensor, steps: int) -> None:
        count = len(points)
        self.images = points.clone()
        self.best = points.new_full((count,), -torch.inf)
        self.success = torch.zeros(count, dtype=torch.bool, device=points.device)
        self.at_end = self.success.clone()
        self.losses = points.new_full((steps + 1, count), torch.nan)

    def add(self, step: int, rows: Tensor, points: Tensor, seen: Seen) -> None:
        """Add the evaluation of some rows after a step; step 0 is the start."""
        self.losses[step, rows] = seen.losses.to(self.losses)
        before, fooled = self.success[rows], seen.fooled
        higher = seen.losses > self.best[rows]
        better = (fooled & ~before) | ((fooled == before) & higher)
        taken = rows[better]
        self.images[taken] = points[better]
        self.best[taken] = seen.losses[better].to(self.best)
        self.success[rows] = before | fooled
        self.at_end[rows] = fooled


def join(records: Sequence[AttackRecord], device: torch.device) -> AttackResult:
    """Concatenate the records of all batches into one result."""
    return AttackResult(
        torch.cat([r.images for r in records]).to(device),
        torch.cat([r.success for r in records]).to(device),
        torch.cat([r.at_end for r in records]).to(device),
        torch.cat([r.losses for r in records], dim=1).to(device),
    )
