"""Small networks with published robust weights, and one for 8x8 digits."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


def lay(*layers: tuple[int, int, int], hidden: int, flat: int) -> nn.Sequential:
    """Return a network of convolutions with ReLU, followed by two linear layers.

    Args:
        *layers: (channels, kernel size, stride) of each convolution; the padding is 1.
        hidden: Width of the hidden linear layer.
        flat: Number of features after the convolutions.
    """
    parts: list[nn.Module] = []
    before = 3
    for channels, kernel, stride in layers:
        parts += [nn.Conv2d(before, channels, kernel, stride, padding=1), nn.ReLU()]
        before = channels
    parts += [nn.Flatten(), nn.Linear(flat, hidden), nn.ReLU(), nn.Linear(hidden, 10)]
    return nn.Sequential(*parts)


def cifar_wide() -> nn.Sequential:
    """Return the network of `cifar_wide.pth` and `cifar_cnn_a_adv4.model`."""
    return lay((16, 4, 2), (32, 4, 2), hidden=100, flat=2048)


def cifar_base() -> nn.Sequential:
    """Return the network of `cifar_base.pth`."""
    return lay((8, 4, 2), (16, 4, 2), hidden=100, flat=1024)


def cifar_deep() -> nn.Sequential:
    """Return the network of `cifar_deep.pth`."""
    return lay((8, 4, 2), (8, 3, 1), (8, 3, 1), (8, 4, 2), hidden=100, flat=512)


class PlainBlock(nn.Module):
    """A residual block without batch normalisation.

    Args:
        before: Input channels.
        channels: Output channels.
        stride: Stride of the first convolution.
    """

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, padding=1)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != channels:
            self.shortcut.append(nn.Conv2d(before, channels, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the block."""
        out: Tensor = self.conv2(self.conv1(x).relu()) + self.shortcut(x)
        return out.relu()


class PlainResNet(nn.Module):
    """A small residual network without batch normalisation.

    Args:
        stem: Channels of the first convolution.
        stages: Channels of each stage of two blocks; each stage halves the resolution.
        flat: Number of features after the last stage.
    """

    def __init__(self, stem: int, stages: Sequence[int], flat: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, stem, 3, 2, padding=1)
        before = stem
        self.stages = [f"layer{i}" for i, _ in enumerate(stages, start=1)]
        for name, channels in zip(self.stages, stages, strict=True):
            blocks = PlainBlock(before, channels, 2), PlainBlock(channels, channels, 1)
            self.add_module(name, nn.Sequential(*blocks))
            before = channels
        self.linear1 = nn.Linear(flat, 100)
        self.linear2 = nn.Linear(100, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        x = self.conv1(x).relu()
        for name in self.stages:
            x = self.get_submodule(name)(x)
        logits: Tensor = self.linear2(self.linear1(x.flatten(1)).relu())
        return logits


def resnet2b() -> PlainResNet:
    """Return the network of `resnet2b.pth`."""
    return PlainResNet(8, (16,), 1024)


def resnet4b() -> PlainResNet:
    """Return the network of `resnet4b.pth`."""
    return PlainResNet(16, (32, 32), 512)


class LeNet5(nn.Module):
    """A network of two convolutions and two linear layers.

    Args:
        size: Height and width of the images, a multiple of 4.
        channels: Output channels of the two convolutions.
        hidden: Width of the hidden linear layer.
    """

    def __init__(
        self, size: int = 28, channels: tuple[int, int] = (32, 64), hidden: int = 200
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels[0], 3, padding=1)
        self.conv2 = nn.Conv2d(channels[0], channels[1], 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.linear1 = nn.Linear(channels[1] * (size // 4) ** 2, hidden)
        self.linear2 = nn.Linear(hidden, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        x = self.pool(self.conv1(x).relu())
        x = self.pool(self.conv2(x).relu())
        logits: Tensor = self.linear2(self.linear1(x.flatten(1)).relu())
        return logits


def digits_cnn() -> LeNet5:
    """Return a network for 8x8 digits."""
    return LeNet5(8, (16, 32), 64)
