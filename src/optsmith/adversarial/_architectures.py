"""Registry of the architectures whose checkpoints can be loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from optsmith._registry import Registry
from optsmith.adversarial import _resnets, _small
from optsmith.adversarial._normalised import CIFAR_MEAN, CIFAR_STD


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network architecture whose weights are loaded from a checkpoint.

    Attributes:
        name: Name in the registry.
        make: Returns a new network with arbitrary weights.
        mean: Mean per channel for normalisation, unless the checkpoint has its own; empty for none.
        std: Standard deviation per channel.
    """

    name: str
    make: Callable[[], nn.Module]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


architectures: Registry[Architecture] = Registry("architecture")
"""Architectures by name."""

_OF_IMAGENET = ((0.485, 0.456, 0.406), (0.225, 0.225, 0.225))
_OF_CIFAR = (CIFAR_MEAN, CIFAR_STD)

for _name, _make, _mean, _std in (
    ("resnet2b", _small.resnet2b, *_OF_CIFAR),
    ("resnet4b", _small.resnet4b, *_OF_CIFAR),
    ("cifar-base", _small.cifar_base, *_OF_IMAGENET),
    ("cifar-wide", _small.cifar_wide, *_OF_IMAGENET),
    ("cifar-deep", _small.cifar_deep, *_OF_IMAGENET),
    ("cnn-a", _small.cifar_wide, CIFAR_MEAN, (0.2023, 0.1994, 0.2010)),
    ("lenet-5", _small.lenet5, (), ()),
    ("digits-cnn", _small.digits_cnn, (), ()),
    ("preact-resnet-18", _resnets.preact_resnet, (), ()),
):
    architectures.add(_name, Architecture(_name, _make, _mean, _std))

for _depth, _width in ((28, 10), (34, 10), (34, 20), (70, 16)):
    _name = f"wide-resnet-{_depth}-{_width}"
    architectures.add(_name, Architecture(_name, partial(_resnets.wide_resnet, _depth, _width)))
    architectures.add(
        f"{_name}-silu",
        Architecture(
            f"{_name}-silu", partial(_resnets.silu_wide_resnet, _depth, _width), *_OF_CIFAR
        ),
    )
