"""Search for an optimizer for your own training loop, a generator that yields the loss.

Run `python examples/your_loop.py`, or `optsmith search examples/your_loop.py:task`.
"""

import torch

import optsmith

grid = torch.cartesian_prod(torch.linspace(-1, 1, 32), torch.linspace(-1, 1, 32))
image = torch.sin(6 * grid[:, :1]) * torch.cos(9 * grid[:, 1:])


def picture(run: optsmith.Run):
    """Fit an image: the network maps a position to a brightness."""
    layers = [torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)]
    model = torch.nn.Sequential(*layers).to(run.device)
    optimizer = run.optimizer(model)
    generator = run.generator()
    for _ in range(run.steps):
        pixels = torch.randint(len(grid), (128,), generator=generator)
        loss = (model(grid[pixels]) - image[pixels]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.detach()


task = optsmith.Task.from_function(picture, steps=500)

if __name__ == "__main__":
    study = optsmith.search(task, budget=128)
    print(study.verdict)
