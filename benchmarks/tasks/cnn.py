"""A network of three convolutions on CIFAR-10; score: the validation loss.

optsmith search benchmarks/tasks/cnn.py:task
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from optsmith import Objective, Task
from optsmith.data import load

CHANNELS = (16, 32, 64)
BATCH, STEPS = 64, 250
TRAIN, VALIDATION, TEST = 20_000, 1_000, 1_000
LRS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)

Pair = tuple[Tensor, Tensor]


def cnn() -> nn.Sequential:
    """Return three 3x3 convolutions with stride 2, batch norm and ReLU, and an output layer."""
    layers: list[nn.Module] = []
    for before, after in zip((3, *CHANNELS), CHANNELS, strict=False):
        convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(CHANNELS[-1] * 16, 10))


def _pair(images: np.ndarray, labels: np.ndarray) -> Pair:
    """Return images standardised per channel, and labels."""
    mean, deviation = (torch.tensor(x).view(3, 1, 1) for x in (MEAN, DEVIATION))
    pixels = torch.from_numpy(np.array(images)).float().div_(255)
    return pixels.sub_(mean).div_(deviation), torch.from_numpy(labels.astype(np.int64))


@cache
def data() -> tuple[Pair, Pair, Pair]:
    """Return training, validation and test images; validation images are training images."""
    files = load("cifar10")
    end = TRAIN + VALIDATION
    return (
        _pair(files.train_images[:TRAIN], files.train_labels[:TRAIN]),
        _pair(files.train_images[TRAIN:end], files.train_labels[TRAIN:end]),
        _pair(files.test_images[:TEST], files.test_labels[:TEST]),
    )


def make_task() -> Task:
    """Return the task."""
    train, validation, test = data()
    return Task.from_module(
        cnn,
        train,
        cross_entropy,
        validation=validation,
        test=test,
        objective=Objective("validation loss", over="tail"),
        batch_size=BATCH,
        steps=STEPS,
        lrs=LRS,
        name="cnn",
        description="three convolutions on CIFAR-10; validation loss",
    )


task = make_task()
