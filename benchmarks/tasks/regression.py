"""A perceptron predicts the lower half of MNIST digits from the upper half; score: validation loss.

optsmith search benchmarks/tasks/regression.py:task
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from optsmith import Objective, Task
from optsmith.data import load

WIDTH, BATCH, STEPS = 64, 64, 600
TRAIN, VALIDATION, TEST = 10_000, 1_000, 1_000
LRS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)

Pair = tuple[Tensor, Tensor]


def perceptron() -> nn.Sequential:
    """Return a network with two hidden layers, for images at half the resolution."""
    return nn.Sequential(
        nn.Linear(98, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 98)
    )


def _halves(images: np.ndarray) -> Pair:
    """Return the upper and the lower half of images, of which four pixels are averaged."""
    small = torch.from_numpy(np.array(images)).float().view(-1, 14, 2, 14, 2).mean((2, 4)) / 255
    upper, lower = small.flatten(1).split(98, dim=1)
    return upper.contiguous(), lower.contiguous()


@cache
def data() -> tuple[Pair, Pair, Pair]:
    """Return training, validation and test images; validation images are training images."""
    files = load("mnist")
    end = TRAIN + VALIDATION
    parts = files.train_images[:TRAIN], files.train_images[TRAIN:end], files.test_images[:TEST]
    train, validation, test = (_halves(part) for part in parts)
    return train, validation, test


def make_task() -> Task:
    """Return the task."""
    train, validation, test = data()
    return Task.from_module(
        perceptron,
        train,
        mse_loss,
        validation=validation,
        test=test,
        objective=Objective("validation loss", over="tail"),
        batch_size=BATCH,
        steps=STEPS,
        lrs=LRS,
        name="regression",
        description="lower halves of MNIST digits from upper halves; validation loss",
    )


task = make_task()
