"""A robust network without a download: trained within seconds on scikit-learn's digits."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from optsmith import data
from optsmith._errors import DataError
from optsmith.adversarial._checkpoint import load_checkpoint
from optsmith.adversarial._small import digits_cnn
from optsmith.adversarial._training import train_robust

EPS = 0.15
"""Radius of the attacks in training."""

TRAINING = 900
"""Size of the training set; the other digits are held out for attacks."""

SEED = 20220
EPOCHS = 15
_FILE = "robust-digits-1.pt"
"""Change the number whenever the training settings change."""

Pair = tuple[Tensor, Tensor]


def robust_digits() -> tuple[nn.Module, Pair]:
    """Return an adversarially trained network for digits, and the held-out digits.

    The network is trained once and cached on disk if the cache directory is writable.
    """
    digits = data.load("digits")
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.labels, dtype=torch.int64)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(SEED))
    images, labels = images[order], labels[order]
    model = _cached(images[:TRAINING], labels[:TRAINING])
    return model, (images[TRAINING:], labels[TRAINING:])


def _cached(images: Tensor, labels: Tensor) -> nn.Module:
    path = data.cache_dir("robust-digits") / "robust-digits" / _FILE
    # A damaged file is replaced, like a missing one.
    with contextlib.suppress(DataError):
        return load_checkpoint(path, "digits-cnn")
    with torch.random.fork_rng([]):
        torch.manual_seed(SEED)
        model = digits_cnn()
    train_robust(model, images, labels, EPS, epochs=EPOCHS, attack_steps=2, lr=1e-2, seed=SEED)
    with contextlib.suppress(OSError):
        _save(model, path)
    return model


def _save(model: nn.Module, path: Path) -> None:
    """Save the weights atomically: other processes may save the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        torch.save(model.state_dict(), temporary)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
