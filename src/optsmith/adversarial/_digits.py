"""A robust network that needs no download: trained here in seconds on scikit-learn's digits."""

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
"""Radius that the network is trained for."""

TRAINING = 900
"""Digits that it is trained on; the others are there to be attacked."""

SEED = 20220
EPOCHS = 15
_FILE = "robust-digits-1.pt"
"""The name changes whenever the recipe does."""

Pair = tuple[Tensor, Tensor]


def robust_digits() -> tuple[nn.Module, Pair]:
    """Return a network trained against attacks on digits, and the digits it has not seen.

    It is trained once, and kept in the cache directory when that can be written.
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
    # A damaged file, like none at all, is made anew.
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
    """Write the weights whole or not at all: others may be doing the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        torch.save(model.state_dict(), temporary)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
