"""A training loop of one's own: a GRU predicts the characters of Python's documentation."""

from collections.abc import Iterator
from functools import cache
from pydoc_data.topics import topics

import torch
from torch import nn

from optsmith import Objective, Run, Task

STEPS, BATCH, LENGTH = 200, 16, 32


class Characters(nn.Module):
    """Predicts the next character."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(count, 32)
        self.gru = nn.GRU(32, 64, batch_first=True)
        self.out = nn.Linear(64, count)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next character at every place."""
        return self.out(self.gru(self.embed(text))[0])


@cache
def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    """Return training, validation and test text, and the number of characters."""
    text = "".join(topics[name] for name in sorted(topics))[:120_000]
    letters = sorted(set(text))
    codes = torch.tensor([letters.index(c) for c in text])
    return codes[:96_000], codes[96_000:108_000], codes[108_000:], len(letters)


def windows(text: torch.Tensor, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pieces of text, and the characters that follow."""
    pieces = text[starts[:, None] + torch.arange(LENGTH + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def loss_of(net: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Return the mean cross-entropy per character."""
    return nn.functional.cross_entropy(net(batch[0]).flatten(0, 1), batch[1].flatten())


def held_out_loss(net: nn.Module, text: torch.Tensor) -> float:
    """Return the loss on text that was not trained on."""
    with torch.no_grad():
        return float(loss_of(net, windows(text, torch.arange(0, len(text) - LENGTH - 1, 120))))


def train(run: Run) -> Iterator[float | None]:
    """Train once; yield the validation loss at times, or the test loss in final runs."""
    text, validation, test, count = data()
    net = Characters(count)
    optimizer = run.optimizer(net)
    generator = run.generator()
    every = max(1, run.steps // 50)
    for step in range(1, run.steps + 1):
        starts = torch.randint(len(text) - LENGTH - 1, (BATCH,), generator=generator)
        optimizer.zero_grad()
        loss_of(net, windows(text, starts)).backward()
        optimizer.step()
        measured = step % every == 0 or step == run.steps
        yield held_out_loss(net, test if run.final else validation) if measured else None


objective = Objective("validation loss", over="tail")
task = Task.from_function(train, steps=STEPS, objective=objective, name="characters")
