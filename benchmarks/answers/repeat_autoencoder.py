"""Repeats the answer on the autoencoder without Optsmith (repeat_autoencoder.py A.py B.py)."""

import torch
from paired import compare
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

STEPS, BATCH = 600, 64
images = torch.tensor(load_digits().data / 16, dtype=torch.float32)
rest, test = train_test_split(range(len(images)), test_size=180, random_state=20223)
train, _ = train_test_split(sorted(rest), test_size=180, random_state=20223)
train, test = images[train], images[test]


def score(make_optimizer, seed):
    """Train once; return the test loss over the last tenth of the run."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 8), nn.Linear(8, 48), nn.GELU(),
        nn.Linear(48, 64),
    )  # fmt: skip
    optimizer = make_optimizer(model, total_steps=STEPS)
    order, losses = torch.empty(0), []
    for step in range(1, STEPS + 1):
        order = order if len(order) >= BATCH else torch.randperm(len(train))
        batch, order = train[order[:BATCH]], order[BATCH:]
        optimizer.zero_grad()
        nn.functional.mse_loss(model(batch), batch).backward()
        optimizer.step()
        if step > 0.9 * STEPS and step % 12 == 0:
            losses.append(nn.functional.mse_loss(model(test), test).item())
    return sum(losses) / len(losses)


compare(score, range(7000, 7010))
