"""ConvNet: a small convolutional network on CIFAR-10."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from optsmith import data
from optsmith._errors import TaskError
from optsmith.optim import classic
from optsmith.task._base import Task
from optsmith.task._metric import Objective, accuracy
from optsmith.task._module import ModuleTask
from optsmith.task._preset import Contest, Preset
from optsmith.task._protocol import UNTRAINED, Protocol

SPLIT_SEED = 20221
"""Seed of the split of the training images into training and validation images."""

VALIDATION = 5000
BATCH = 100
LRS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
"""Per channel, where white is 1; the values that the authors of the paper use."""

LAYOUT = torch.channels_last
"""Memory format of images and weights; `benchmarks/convnet.py` compares it with others."""

DESCRIPTION = "2-layer ConvNet with batch norm on cifar10; validation accuracy"

QUICK_CONTEST = Contest(
    race=(0.16,), finalists=3, selection_seeds=2, looks=(4, 8), horizons=(0.5, 0.7, 0.85)
)
"""The comparison at the end of a quick search."""

Pair = tuple[Tensor, Tensor]


def convnet() -> nn.Sequential:
    """Return the network of the authors' code, with torch's default weights.

    Two blocks of a 3x3 convolution to 32 channels, ReLU, 2x2 max pooling and batch norm; then a
    hidden layer of 1024 units with ReLU, and an output layer.
    """
    layers: list[nn.Module] = []
    for channels in (3, 32):
        layers += [
            nn.Conv2d(channels, 32, 3, padding=1),
            # Pooling before ReLU gives the same values and gradients with a quarter of the work.
            nn.MaxPool2d(2),
            nn.ReLU(inplace=True),
            nn.BatchNorm2d(32),
        ]
    layers += [nn.Flatten(), nn.Linear(2048, 1024), nn.ReLU(inplace=True), nn.Linear(1024, 10)]
    network = nn.Sequential(*layers)
    return network.to(memory_format=LAYOUT)  # type: ignore[call-overload, no-any-return]


def normalise(images: Tensor) -> Tensor:
    """Return images of bytes as numbers, standardised per channel."""
    mean, deviation = (
        torch.tensor(values, device=images.device).mul_(255).view(3, 1, 1)
        for values in (MEAN, DEVIATION)
    )
    # Not in place: `to` returns the images themselves if there is nothing to convert.
    return images.to(torch.float32, memory_format=LAYOUT).sub(mean).div_(deviation)


def presets() -> Mapping[str, Preset]:
    """Return the task's presets.

    `paper` tunes learning rates on a grid with one epoch (450 batches of 100) per rate and scores
    rules after five epochs, without early stopping; every evaluation counts towards the budget. The
    final evaluation trains for five epochs on all 50 000 training images.

    `quick` has final runs of one epoch. It searches by mixtures, whose candidates are scored by two
    such runs; other searchers tune learning rates on 5 000 images, and score rules with two runs on
    22 500 images, which depend on the seed.

    `smoke` only shows that the task runs.
    """
    paper = Protocol(
        lrs=LRS,
        proxy_steps=450,
        steps=2250,
        final_steps=2500,
        score_seeds=1,
        threshold=0.2,
        early_stop=False,
    )
    quick = paper.replace(
        lr_search="auto", proxy_steps=50, steps=225, final_steps=500, tune_steps=500, score_seeds=2,
        final_seeds=4, threshold=UNTRAINED,
    )  # fmt: skip
    smoke = paper.replace(
        lrs=(1e-3, 1e-2), proxy_steps=3, steps=4, final_steps=5, final_seeds=1, threshold=None
    )
    return {
        "paper": Preset(
            protocol=paper,
            space="convnet",
            trajectory=False,
            options={"count_all": True},
            warm_start=False,
        ),
        "quick": Preset(
            protocol=quick,
            space="convnet",
            searcher="mixture",
            budget=16,
            dedupe="scale",
            contest=QUICK_CONTEST,
        ),
        "smoke": Preset(protocol=smoke, space="convnet", budget=4, options={"levels": 2}),
    }


def make(data_dir: Path | None = None) -> Task:
    """Return the task on CIFAR-10."""
    cifar = data.load("cifar10", data_dir)
    train = torch.tensor(cifar.train_images), torch.tensor(cifar.train_labels, dtype=torch.int64)
    test = torch.tensor(cifar.test_images), torch.tensor(cifar.test_labels, dtype=torch.int64)
    return task_of(train, test)


def task_of(
    train: Pair, test: Pair, validation: int = VALIDATION, batch_size: int = BATCH
) -> ModuleTask:
    """Return the task on images in the format of CIFAR-10.

    Args:
        train: Images as bytes of shape (n, 3, 32, 32), and labels from 0 to 9.
        test: Images and labels of the final evaluation, in the same format.
        validation: Number of training images that a search holds out for validation.
        batch_size: Images per batch.

    Raises:
        TaskError: The images or labels have another format, or there are too few.
    """
    for images, labels in (train, test):
        if images.dtype != torch.uint8 or images.shape[1:] != (3, 32, 32):
            raise TaskError(
                f"images must be bytes of shape (n, 3, 32, 32), not {images.dtype} of shape"
                f" {tuple(images.shape)}"
            )
        if len(labels) and not (labels.min() >= 0 and labels.max() <= 9):
            raise TaskError("labels must be numbers from 0 to 9")
    count = len(train[0]) - validation
    if count < batch_size:
        raise TaskError(
            f"{len(train[0])} images are too few: {validation} are held out, and a batch has"
            f" {batch_size}"
        )
    order = torch.randperm(len(train[0]), generator=torch.Generator().manual_seed(SPLIT_SEED))
    # In the order of the split, so that both parts are views of the whole.
    images, labels = train[0][order], train[1][order]
    task = ModuleTask(
        convnet,
        (images[:count], labels[:count]),
        cross_entropy,
        validation=(images[count:], labels[count:]),
        refit=(images, labels),
        test=test,
        objective=Objective("accuracy", "maximize", "last", accuracy.unit),
        metric=accuracy,
        batch_size=batch_size,
        prepare=normalise,
        measure_size=batch_size,  # larger batches do not fit in the cache and take longer
        check_every=500,
        presets=presets(),
        name="convnet",
        description=DESCRIPTION,
    )
    task.baselines = classic
    return task
