"""Pre-activation residual networks, with the parameter names of published checkpoints.

Three families of blocks occur: TRADES (Carmon2019, Sehwag2020, Wang2020, …), DeepMind (Gowal2020,
Rebuffi2021, …), and PreAct-ResNet (Wong2020, Andriushchenko2020).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn
from torch.nn.functional import pad, relu, silu

from optsmith._errors import TaskError

MakeBlock = Callable[[int, int, int], nn.Module]
"""Returns a block, given its input channels, output channels and stride."""


@dataclass(frozen=True, slots=True)
class Family:
    """The differences between families of blocks.

    Attributes:
        norms: Names of the two batch norms.
        convs: Names of the two 3x3 convolutions.
        shortcut: Name of the 1x1 convolution of a block that changes the number of channels.
        activation: The activation function.
        pads_end: Whether strided convolutions are padded by one row and column at the end only, as
            TensorFlow's "SAME" does.
        plain_shortcut: Whether the shortcut branches off before the activation; it is then nested
            in a `Sequential`.
    """

    norms: tuple[str, str] = ("bn1", "bn2")
    convs: tuple[str, str] = ("conv1", "conv2")
    shortcut: str = "shortcut"
    activation: Callable[[Tensor], Tensor] = relu
    pads_end: bool = False
    plain_shortcut: bool = False


TRADES = Family(shortcut="convShortcut")
DEEPMIND = Family(
    ("batchnorm_0", "batchnorm_1"), ("conv_0", "conv_1"), activation=silu, pads_end=True
)
PREACT = Family(plain_shortcut=True)


class PreActBlock(nn.Module):
    """A residual block with activations before the convolutions.

    Args:
        family: Names and details.
        before: Input channels.
        channels: Output channels.
        stride: Stride of the first convolution.
    """

    def __init__(self, family: Family, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.family, self.widens = family, before != channels
        self.padding = (0, 1, 0, 1) if family.pads_end and stride > 1 else None
        first = _conv(before, channels, 3, stride, padding=1 if self.padding is None else 0)
        self.add_module(family.norms[0], nn.BatchNorm2d(before))
        self.add_module(family.convs[0], first)
        self.add_module(family.norms[1], nn.BatchNorm2d(channels))
        self.add_module(family.convs[1], _conv(channels, channels, 3, padding=1))
        if self.widens:
            shortcut = _conv(before, channels, 1, stride)
            nested = nn.Sequential(shortcut) if family.plain_shortcut else shortcut
            self.add_module(family.shortcut, nested)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the block."""
        family, part = self.family, self.get_submodule
        active = family.activation(part(family.norms[0])(x))
        padded = active if self.padding is None else pad(active, self.padding)
        inner = part(family.norms[1])(part(family.convs[0])(padded))
        out: Tensor = part(family.convs[1])(family.activation(inner))
        if self.widens:
            x = part(family.shortcut)(x if family.plain_shortcut else active)
        return out + x


def stage(make: MakeBlock, count: int, before: int, channels: int, stride: int) -> nn.Sequential:
    """Return a sequence of blocks, of which the first has the stride."""
    first = make(before, channels, stride)
    return nn.Sequential(first, *(make(channels, channels, 1) for _ in range(count - 1)))


def named(**layers: nn.Module) -> nn.Sequential:
    """Return the layers in sequence, with the given names."""
    return nn.Sequential(OrderedDict(layers))


def wide_resnet(depth: int = 28, width: int = 10) -> nn.Sequential:
    """Return a wide residual network of the TRADES family, for 32x32 images.

    Args:
        depth: Number of layers, 6n + 4.
        width: Multiplier of the number of channels.
    """
    stages = enumerate(_wide_stages(TRADES, depth, width), start=1)
    return named(
        conv1=_conv(3, 16, 3, padding=1),
        **{f"block{i}": named(layer=part) for i, part in stages},
        bn1=nn.BatchNorm2d(64 * width),
        relu=nn.ReLU(),
        pool=nn.AvgPool2d(8),
        flat=nn.Flatten(),
        fc=nn.Linear(64 * width, 10),
    )


def silu_wide_resnet(depth: int = 28, width: int = 10) -> nn.Sequential:
    """Return a wide residual network of the DeepMind family, for 32x32 images.

    Args:
        depth: Number of layers, 6n + 4.
        width: Multiplier of the number of channels.
    """
    stages = _wide_stages(DEEPMIND, depth, width)
    return named(
        init_conv=_conv(3, 16, 3, padding=1),
        layer=nn.Sequential(*(named(block=part) for part in stages)),
        batchnorm=nn.BatchNorm2d(64 * width),
        silu=nn.SiLU(),
        pool=nn.AvgPool2d(8),
        flat=nn.Flatten(),
        logits=nn.Linear(64 * width, 10),
    )


def preact_resnet(counts: Sequence[int] = (2, 2, 2, 2)) -> nn.Sequential:
    """Return a PreAct-ResNet for 32x32 images, without a final batch norm.

    Args:
        counts: Blocks per stage, for the four stages.
    """
    make = partial(PreActBlock, PREACT)
    return named(
        conv1=_conv(3, 64, 3, padding=1),
        layer1=stage(make, counts[0], 64, 64, 1),
        layer2=stage(make, counts[1], 64, 128, 2),
        layer3=stage(make, counts[2], 128, 256, 2),
        layer4=stage(make, counts[3], 256, 512, 2),
        pool=nn.AvgPool2d(4),
        flat=nn.Flatten(),
        linear=nn.Linear(512, 10),
    )


def _wide_stages(family: Family, depth: int, width: int) -> Iterator[nn.Sequential]:
    """Yield the three stages of a wide residual network."""
    if depth < 10 or (depth - 4) % 6:
        raise TaskError(f"the depth of a wide residual network must be 6n + 4, not {depth}")
    count, make = (depth - 4) // 6, partial(PreActBlock, family)
    yield stage(make, count, 16, 16 * width, 1)
    yield stage(make, count, 16 * width, 32 * width, 2)
    yield stage(make, count, 32 * width, 64 * width, 2)


def _conv(before: int, channels: int, kernel: int, stride: int = 1, padding: int = 0) -> nn.Conv2d:
    return nn.Conv2d(before, channels, kernel, stride, padding, bias=False)
