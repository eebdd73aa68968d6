"""Pre-activation residual networks, with the parameter names of published checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.functional import avg_pool2d


class PreActBlock(nn.Module):
    """A residual block with activations before the convolutions.

    Args:
        before: Input channels.
        channels: Output channels.
        stride: Stride of the first convolution.
    """

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, channels, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, padding=1, bias=False)
        self.shortcut: nn.Sequential | None = None
        if stride != 1 or before != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the block."""
        out: Tensor = self.conv2(self.bn2(self.conv1(self.bn1(x).relu())).relu())
        return out + (x if self.shortcut is None else self.shortcut(x))


class PreActResNet(nn.Module):
    """A pre-activation residual network of basic blocks, for 32x32 images.

    As in Wong2020 and Andriushchenko2020, shortcuts branch off before the activation and there is
    no final batch norm.

    Args:
        counts: Blocks per stage, for the four stages.
        classes: Number of classes.
    """

    def __init__(self, counts: Sequence[int] = (2, 2, 2, 2), classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.layer1 = _stage(counts[0], 64, 64, 1)
        self.layer2 = _stage(counts[1], 64, 128, 2)
        self.layer3 = _stage(counts[2], 128, 256, 2)
        self.layer4 = _stage(counts[3], 256, 512, 2)
        self.linear = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.conv1(x)))))
        logits: Tensor = self.linear(avg_pool2d(x, 4).flatten(1))
        return logits


def _stage(count: int, before: int, channels: int, stride: int) -> nn.Sequential:
    first = PreActBlock(before, channels, stride)
    return nn.Sequential(first, *(PreActBlock(channels, channels, 1) for _ in range(count - 1)))
