"""Wide residual networks, with the parameter names of published checkpoints.

There are two families: TRADES (Carmon2019, Sehwag2020, Wang2020, …), and DeepMind (Gowal2020,
Rebuffi2021, …), which uses SiLU and pads strided convolutions on one side only.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad, silu

from optsmith._errors import TaskError


def _blocks(depth: int) -> int:
    if depth < 10 or (depth - 4) % 6:
        raise TaskError(f"the depth of a wide residual network must be 6n + 4, not {depth}")
    return (depth - 4) // 6


def _conv(before: int, channels: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, channels, kernel, stride, padding=kernel // 2, bias=False)


class WideBlock(nn.Module):
    """A block of the TRADES family.

    Args:
        before: Input channels.
        channels: Output channels.
        stride: Stride of the first convolution.
    """

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(before)
        self.conv1 = _conv(before, channels, 3, stride)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv2 = _conv(channels, channels, 3)
        self.convShortcut = None if before == channels else _conv(before, channels, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the block."""
        active = self.bn1(x).relu()
        out: Tensor = self.conv2(self.bn2(self.conv1(active)).relu())
        # A block that changes the width takes its shortcut after the activation.
        return out + (x if self.convShortcut is None else self.convShortcut(active))


class WideStage(nn.Module):
    """A sequence of blocks of equal width.

    Args:
        count: Number of blocks.
        before: Input channels.
        channels: Output channels.
        stride: Stride of the first block.
    """

    def __init__(self, count: int, before: int, channels: int, stride: int) -> None:
        super().__init__()
        first = WideBlock(before, channels, stride)
        rest = (WideBlock(channels, channels, 1) for _ in range(count - 1))
        self.layer = nn.Sequential(first, *rest)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the last block."""
        out: Tensor = self.layer(x)
        return out


class WideResNet(nn.Module):
    """A wide residual network of the TRADES family, for 32x32 images.

    Args:
        depth: Number of layers, 6n + 4.
        width: Multiplier of the number of channels.
        classes: Number of classes.
    """

    def __init__(self, depth: int = 28, width: int = 10, classes: int = 10) -> None:
        super().__init__()
        count = _blocks(depth)
        self.conv1 = _conv(3, 16, 3)
        self.block1 = WideStage(count, 16, 16 * width, 1)
        self.block2 = WideStage(count, 16 * width, 32 * width, 2)
        self.block3 = WideStage(count, 32 * width, 64 * width, 2)
        self.bn1 = nn.BatchNorm2d(64 * width)
        self.fc = nn.Linear(64 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        logits: Tensor = self.fc(avg_pool2d(self.bn1(x).relu(), 8).flatten(1))
        return logits


class SiluBlock(nn.Module):
    """A block of the DeepMind family.

    Args:
        before: Input channels.
        channels: Output channels.
        stride: Stride of the first convolution.
    """

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.batchnorm_0 = nn.BatchNorm2d(before)
        self.conv_0 = nn.Conv2d(before, channels, 3, stride, bias=False)
        self.batchnorm_1 = nn.BatchNorm2d(channels)
        self.conv_1 = _conv(channels, channels, 3)
        self.shortcut = None if before == channels else _conv(before, channels, 1, stride)
        # TensorFlow's "SAME": a strided convolution is padded by one row and column at the end.
        self.padding = (1, 1, 1, 1) if stride == 1 else (0, 1, 0, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the block."""
        active = silu(self.batchnorm_0(x))
        inner = silu(self.batchnorm_1(self.conv_0(pad(active, self.padding))))
        out: Tensor = self.conv_1(inner)
        return out + (x if self.shortcut is None else self.shortcut(active))


class SiluStage(nn.Module):
    """A sequence of blocks of equal width.

    Args:
        count: Number of blocks.
        before: Input channels.
        channels: Output channels.
        stride: Stride of the first block.
    """

    def __init__(self, count: int, before: int, channels: int, stride: int) -> None:
        super().__init__()
        first = SiluBlock(before, channels, stride)
        rest = (SiluBlock(channels, channels, 1) for _ in range(count - 1))
        self.block = nn.Sequential(first, *rest)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the last block."""
        out: Tensor = self.block(x)
        return out


class SiluWideResNet(nn.Module):
    """A wide residual network of the DeepMind family, for 32x32 images.

    Args:
        depth: Number of layers, 6n + 4.
        width: Multiplier of the number of channels.
        classes: Number of classes.
    """

    def __init__(self, depth: int = 28, width: int = 10, classes: int = 10) -> None:
        super().__init__()
        count = _blocks(depth)
        self.init_conv = _conv(3, 16, 3)
        self.layer = nn.Sequential(
            SiluStage(count, 16, 16 * width, 1),
            SiluStage(count, 16 * width, 32 * width, 2),
            SiluStage(count, 32 * width, 64 * width, 2),
        )
        self.batchnorm = nn.BatchNorm2d(64 * width)
        self.logits = nn.Linear(64 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        x = silu(self.batchnorm(self.layer(self.init_conv(x))))
        logits: Tensor = self.logits(avg_pool2d(x, 8).flatten(1))
        return logits
