"""Regression: a perceptron compresses images of digits to 8 numbers and restores them."""

import torch
from sklearn.datasets import load_digits
from torch import nn

from optsmith import Task

STEPS, BATCH = 600, 64


def model() -> nn.Module:
    """Return the network."""
    return nn.Sequential(
        nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 8), nn.Linear(8, 48), nn.GELU(),
        nn.Linear(48, 64),
    )  # fmt: skip


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the images as inputs and as targets."""
    images = torch.tensor(load_digits().data / 16, dtype=torch.float32)
    return images, images.clone()


task = Task.from_module(
    model, data(), nn.functional.mse_loss, steps=STEPS, batch_size=BATCH, name="autoencoder"
)
