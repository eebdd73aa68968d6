"""Adversarial training: training on images perturbed by an attack at each step."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from optsmith._errors import TaskError
from optsmith.adversarial._attack import pgd
from optsmith.adversarial._climb import check_images
from optsmith.optim import Baseline

WARM_UP = 0.5
"""Share of the run in which the radius grows linearly; at full radius it would not learn."""


def train_robust(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    eps: float,
    *,
    epochs: int,
    attack_steps: int = 5,
    batch_size: int = 64,
    lr: float = 2e-3,
    seed: int = 0,
) -> list[float]:
    """Train a model in place on images that PGD perturbs by up to `eps` per pixel.

    Trains with Adam and a linearly decaying learning rate. The order of the images and the attacks
    depend on `seed` only, not on torch's random state.

    Args:
        model: Maps images in [0, 1] to logits.
        images: Training images in [0, 1].
        labels: Their classes.
        eps: Radius of the attacks in the `linf` norm.
        epochs: Number of epochs.
        attack_steps: Steps of PGD per batch.
        batch_size: Images per batch; the last, incomplete batch is dropped.
        lr: Initial learning rate.
        seed: Seed of the order of the images and of the attacks.

    Returns:
        The mean loss on the perturbed images, per epoch.

    Raises:
        TaskError: Images, labels or a setting are invalid.
    """
    check_images(images, labels)
    for name, value in (("epochs", epochs), ("batch_size", batch_size)):
        if value < 1:
            raise TaskError(f"{name} must be at least 1, not {value}")
    generator = torch.Generator().manual_seed(seed)
    per_epoch = max(1, len(images) // batch_size)
    total = epochs * per_epoch
    optimizer = Baseline("adam", "linear").build(model.parameters(), lr, total)
    history, done = [], 0
    for _ in range(epochs):
        sums = torch.zeros(())
        rows = torch.randperm(len(images), generator=generator)
        for batch in torch.split(rows[: per_epoch * batch_size], batch_size):
            done += 1
            radius = eps * min(1.0, done / (WARM_UP * total))
            some, classes = images[batch], labels[batch]
            found = pgd(
                model, some, classes, radius, attack_steps, seed=seed + done, batch_size=batch_size
            )
            model.train()
            optimizer.zero_grad()
            loss = cross_entropy(model(found.images), classes)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            sums += loss.detach().cpu()
        history.append(float(sums) / per_epoch)
    model.eval()
    return history
