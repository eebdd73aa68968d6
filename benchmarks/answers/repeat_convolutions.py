"""Repeats the answer on convolutions without Optsmith (repeat_convolutions.py A.py B.py)."""

import torch
from paired import compare
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split as split
from torch import nn
from torch.utils.data import DataLoader

STEPS, digits = 250, load_digits()
x, y = torch.tensor(digits.images / 16, dtype=torch.float32)[:, None], digits.target
x = x + 0.3 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
rest, test = split(range(len(x)), test_size=180, random_state=20223, stratify=y)
train, _ = split(sorted(rest), test_size=180, random_state=20223, stratify=y[sorted(rest)])
y = torch.tensor(y)
loader = DataLoader(list(zip(x[train], y[train], strict=True)), batch_size=32, shuffle=True)


def score(make_optimizer, seed):
    """Train once; return the test loss over the last tenth of the run."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(24 * 16, 10),
    )  # fmt: skip
    optimizer, losses = make_optimizer(model, total_steps=STEPS), []
    batches = (batch for _ in range(STEPS) for batch in loader)
    for step in range(1, STEPS + 1):
        images, labels = next(batches)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model.train()(images), labels).backward()
        optimizer.step()
        if step > 0.9 * STEPS and step % 5 == 0:
            losses.append(nn.functional.cross_entropy(model.eval()(x[test]), y[test]).item())
    return sum(losses) / len(losses)


compare(score, range(7000, 7010))
