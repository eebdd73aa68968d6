"""The MNISTNET tasks: small perceptrons on MNIST and on scikit-learn's bundled digits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from optsmith import data
from optsmith.optim import classic
from optsmith.task._base import Task
from optsmith.task._metric import accuracy
from optsmith.task._module import ModuleTask
from optsmith.task._preset import presets_for

SPLIT_SEED = 20220
"""Seed of the fixed split into a training half and a held-out half."""

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Variant:
    """A network and its dataset.

    Attributes:
        name: Name of the task.
        hidden: Widths of the hidden layers.
        activation: Activation between the layers.
        dataset: `mnist` or `digits`.
        budget: Budget of the quick search, so that it takes at most five minutes on two cores.
    """

    name: str
    hidden: tuple[int, ...] = (20,)
    activation: type[nn.Module] = nn.Sigmoid
    dataset: str = "mnist"
    budget: int = 128

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of all layers, including input and output."""
        return (784 if self.dataset == "mnist" else 64, *self.hidden, 10)

    @property
    def description(self) -> str:
        """Description in one line."""
        shape = "-".join(map(str, self.widths))
        return f"MLP {shape}, {self.activation.__name__.lower()}, on {self.dataset}; training loss"

    def make(self, data_dir: Path | None = None) -> Task:
        """Return the task."""
        train, test = _halves(*_images(self.dataset, data_dir))
        presets = presets_for(1000)
        task = ModuleTask(
            partial(mlp, self.widths, self.activation),
            train,
            cross_entropy,
            test=test,
            objective="training loss",
            metric=accuracy,
            batch_size=128,
            presets={**presets, "quick": replace(presets["quick"], budget=self.budget)},
            name=self.name,
            description=self.description,
        )
        task.baselines = classic
        return task


VARIANTS = (
    Variant("mnistnet"),
    Variant("mnistnet-2layer", hidden=(20, 20)),
    Variant("mnistnet-big", hidden=(40,), budget=72),
    Variant("mnistnet-relu", activation=nn.ReLU),
    Variant("digits", dataset="digits"),
)


def mlp(widths: tuple[int, ...], activation: type[nn.Module]) -> nn.Sequential:
    """Return a multi-layer perceptron with torch's default weights."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1])


def _images(dataset: str, data_dir: Path | None) -> Pair:
    """Return the images as rows of values from 0 to 1, and the labels."""
    if dataset == "digits":
        digits = data.load("digits")
        return torch.tensor(digits.images, dtype=torch.float32).flatten(1) / 16, torch.tensor(
            digits.labels, dtype=torch.int64
        )
    mnist = data.load("mnist", data_dir)
    images = torch.tensor(mnist.train_images, dtype=torch.float32).flatten(1) / 255
    return images, torch.tensor(mnist.train_labels, dtype=torch.int64)


def _halves(images: Tensor, labels: Tensor) -> tuple[Pair, Pair]:
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(SPLIT_SEED))
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    return (images[first], labels[first]), (images[second], labels[second])
