"""The networks whose attack is a named task."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from optsmith import data
from optsmith._errors import DataError
from optsmith.adversarial import load_checkpoint, robust_digits
from optsmith.task._attack import AttackTask, Pair
from optsmith.task._base import Task


@dataclass(frozen=True, slots=True)
class Target:
    """A network whose attack is a named task.

    Attributes:
        name: Name of the task.
        architecture: Architecture of the network.
        file: Checkpoint, searched in the user's directory and its folder `robust_cifar10`.
        radius: Radius of the ball, in units of 1/255.
    """

    name: str
    architecture: str
    file: str
    radius: int

    @property
    def description(self) -> str:
        """Description in one line."""
        return f"attack on {self.architecture}, CIFAR-10, linf {self.radius}/255; success rate"

    def make(self, data_dir: Path | None = None) -> Task:
        """Return the task."""
        model = load_checkpoint(_find(self.file, data_dir), self.architecture)
        cifar = data.load("cifar10", data_dir)
        # Training images for the search, so that the final evaluation has all test images.
        search = _tensors(cifar.train_images[:SEARCH], cifar.train_labels[:SEARCH])
        final = _tensors(cifar.test_images, cifar.test_labels)
        return AttackTask(
            model, search, final, eps=self.radius / 255, name=self.name,
            description=self.description,
        )  # fmt: skip


SEARCH = 2 * 400 + 2 * 1000 + 12 * 400
"""Training images: to tune in a search and for the final evaluation, twice each, and to score."""

TARGETS = (
    Target("attack-resnet4b", "resnet4b", "resnet4b.pth", 2),
    Target("attack-resnet2b", "resnet2b", "resnet2b.pth", 2),
    Target("attack-cifar-wide", "cifar-wide", "cifar_wide.pth", 8),
    Target("attack-cifar-base", "cifar-base", "cifar_base.pth", 8),
    Target("attack-cifar-deep", "cifar-deep", "cifar_deep.pth", 8),
    Target("attack-cnn-a", "cnn-a", "cifar_cnn_a_adv4.model", 8),
    Target("attack-carmon2019", "wide-resnet-28-10", "Carmon2019Unlabeled.pt", 8),
)

DIGITS_DESCRIPTION = "attack on a robust CNN on digits, linf 0.15; success rate"


def make_digits(data_dir: Path | None = None) -> Task:
    """Return the attack that needs no download.

    Of the 897 held-out digits, 149 tune during a search, 150 score during a search, 149 tune for
    the final evaluation, and 449 are attacked in it.
    """
    model, (images, labels) = robust_digits()
    half = len(images) // 2
    return AttackTask(
        model,
        (images[:half], labels[:half]),
        (images[half:], labels[half:]),
        eps=0.15,
        images=75,
        final_images=150,
        name="attack",
        description=DIGITS_DESCRIPTION,
    )


def _find(file: str, data_dir: Path | None) -> Path:
    """Return the path of a checkpoint.

    Raises:
        DataError: The checkpoint is not found.
    """
    named = os.environ.get("OPTSMITH_DATA")
    roots = [data_dir, None if named is None else Path(named), data.cache_dir("robust_cifar10")]
    places = [
        root.expanduser().absolute() / folder
        for root in roots
        if root is not None
        for folder in ("robust_cifar10", "")
    ]
    for place in places:
        if (place / file).is_file():
            return place / file
    raise DataError(
        f"the checkpoint {file} was not found: put it into {places[0]}, or give its directory with"
        " --data-dir or OPTSMITH_DATA"
    )


def _tensors(images: object, labels: object) -> Pair:
    return torch.tensor(images), torch.tensor(labels).long()
