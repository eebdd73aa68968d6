"""Small networks with published robust weights, and one for 8x8 digits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from optsmith.adversarial._resnets import named, stage


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


def plain_resnet(stem: int, stages: Sequence[int], flat: int) -> nn.Sequential:
    """Return a small residual network without batch normalisation.

    Args:
        stem: Channels of the first convolution.
        stages: Channels of each stage of two blocks; each stage halves the resolution.
        flat: Number of features after the last stage.
    """
    first = nn.Conv2d(3, stem, 3, 2, padding=1)
    parts = {
        f"layer{i}": stage(PlainBlock, 2, before, channels, 2)
        for i, (before, channels) in enumerate(pairwise((stem, *stages)), start=1)
    }
    return named(conv1=first, relu1=nn.ReLU(), **parts, **_head(flat, 100))


def resnet2b() -> nn.Sequential:
    """Return the network of `resnet2b.pth`."""
    return plain_resnet(8, (16,), 1024)


def resnet4b() -> nn.Sequential:
    """Return the network of `resnet4b.pth`."""
    return plain_resnet(16, (32, 32), 512)


def lenet5(
    size: int = 28, channels: tuple[int, int] = (32, 64), hidden: int = 200
) -> nn.Sequential:
    """Return a network of two convolutions and two linear layers.

    Args:
        size: Height and width of the images, a multiple of 4.
        channels: Output channels of the two convolutions.
        hidden: Width of the hidden linear layer.
    """
    return named(
        conv1=nn.Conv2d(1, channels[0], 3, padding=1),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(channels[0], channels[1], 3, padding=1),
        relu2=nn.ReLU(),
        pool2=nn.MaxPool2d(2),
        **_head(channels[1] * (size // 4) ** 2, hidden),
    )


def digits_cnn() -> nn.Sequential:
    """Return a network for 8x8 digits."""
    return lenet5(8, (16, 32), 64)


def _head(flat: int, hidden: int) -> dict[str, nn.Module]:
    """Return two linear layers on top of `flat` features, by name."""
    return {
        "flat": nn.Flatten(),
        "linear1": nn.Linear(flat, hidden),
        "relu": nn.ReLU(),
        "linear2": nn.Linear(hidden, 10),
    }
