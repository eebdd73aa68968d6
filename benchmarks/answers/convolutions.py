"""DataLoaders: a small convolutional network recognizes digits."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from optsmith import Task
from optsmith.task import accuracy

STEPS, BATCH = 250, 32


def model() -> nn.Module:
    """Return the network."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(24 * 16, 10),
    )  # fmt: skip


def data() -> TensorDataset:
    """Return images with noise, and their labels."""
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32)[:, None]
    noise = 0.3 * torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    return TensorDataset(images + noise, torch.tensor(digits.target))


task = Task.from_module(
    model,
    DataLoader(data(), batch_size=BATCH, shuffle=True),
    nn.functional.cross_entropy,
    metric=accuracy,
    objective="validation loss",
    steps=STEPS,
    name="convolutions",
)
