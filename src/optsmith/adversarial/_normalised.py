"""A wrapper that normalises images, so that attacks work on images in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

CIFAR_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR_STD = (0.2471, 0.2435, 0.2616)


class Normalised(nn.Module):
    """A model preceded by normalisation of the channels.

    Args:
        model: The model.
        mean: Mean per channel.
        std: Standard deviation per channel.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("mean", torch.tensor(tuple(mean)).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(tuple(std)).view(-1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return the model's logits."""
        logits: Tensor = self.model((images - self.mean) / self.std)
        return logits
