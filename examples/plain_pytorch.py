"""Compare a zoo rule with torch's Adam in a plain training loop.

The loop has gradient accumulation over micro-batches, gradient clipping, a learning-rate scheduler,
and a checkpoint from which the second half of the run is resumed. The learning rate of both
optimizers is selected from the same grid on a validation set. The data are the 1797 digits of
scikit-learn (`pip install scikit-learn`).
"""

import io

import torch
from sklearn.datasets import load_digits
from torch import nn

import optsmith

torch.set_num_threads(1)
EPOCHS, BATCH, SEEDS = 10, 128, 3
GRID = [10 ** (k / 2) for k in range(-6, 3)]  # 0.001 ... 10
pixels, digits = load_digits(return_X_y=True)
x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
train, validation, test = order.split([1100, 300, 397])
STEPS = EPOCHS * -(-len(train) // BATCH)  # optimizer steps, not micro-batches


def start(name, lr, seed):
    """Return a new model, its optimizer, and a scheduler with a warm-up of ten steps."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    if name == "torch Adam":
        optimizer = torch.optim.Adam(model.parameters(), lr)
    else:
        optimizer = optsmith.RuleOptimizer(model.parameters(), optsmith.zoo[name].rule, lr, STEPS)
    return model, optimizer, torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10)


def accuracy(name, lr, seed, rows):
    """Train and return the accuracy on `rows`."""
    run = model, optimizer, scheduler = start(name, lr, seed)
    for epoch in range(EPOCHS):
        if epoch == EPOCHS // 2:  # save and resume, as after a restart of the job
            torch.save([part.state_dict() for part in run], file := io.BytesIO())
            run = model, optimizer, scheduler = start(name, lr, seed)
            for part, state in zip(run, torch.load(io.BytesIO(file.getvalue())), strict=True):
                part.load_state_dict(state)
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(epoch))
        for batch in train[order].split(BATCH):
            for part in batch.chunk(2):  # micro-batches: their gradients are accumulated
                loss = nn.functional.cross_entropy(model(x[part]), y[part], reduction="sum")
                (loss / len(batch)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
    return (model(x[rows]).argmax(1) == y[rows]).float().mean().item()


for name in ("mnist1", "torch Adam"):
    scores = {lr: sum(accuracy(name, lr, s, validation) for s in range(SEEDS)) for lr in GRID}
    lr = max(scores, key=scores.get)
    tests = torch.tensor([accuracy(name, lr, s, test) for s in range(SEEDS)])
    print(f"{name:10}  lr {lr:<6.2g} test accuracy {tests.mean():.1%} ± {tests.std():.1%}")
