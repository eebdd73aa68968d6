"""A character GPT of 114 k parameters on Python's documentation; score: the validation loss.

optsmith search benchmarks/tasks/gpt.py:task
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn
from torch.nn import functional

from optsmith import Objective, Task

LAYERS, WIDTH, HEADS, LENGTH = 2, 64, 4, 32
BATCH, STEPS = 16, 300
CHARACTERS = 200_000
"""Length of the text: 90 % for training, then 5 % each for validation and test."""

LRS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


class Block(nn.Module):
    """Causal self-attention and a perceptron, each after a layer norm and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.join = nn.Linear(width, width, bias=False)
        self.wide = nn.Linear(width, 4 * width, bias=False)
        self.back = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (batch, time, width)."""
        heads = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).transpose(-4, -2)
        query, key, value = heads.unbind(-3)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(seen.transpose(-3, -2).flatten(-2))
        return x + self.back(functional.gelu(self.wide(self.norm2(x))))  # type: ignore[no-any-return]


class GPT(nn.Module):
    """Predicts the next character.

    Args:
        count: Number of different characters.
        layers: Number of blocks.
        width: Width of the blocks.
        heads: Heads of the attention.
        length: Length of the text.
    """

    def __init__(
        self,
        count: int,
        layers: int = LAYERS,
        width: int = WIDTH,
        heads: int = HEADS,
        length: int = LENGTH,
    ) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(count, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, count, bias=False)
        self.register_buffer("order", torch.arange(length), persistent=False)
        for embedding in (self.characters, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, text: Tensor) -> Tensor:
        """Return the logits of the next character: (batch, time, characters)."""
        x = self.characters(text) + self.places(self.order)
        return self.out(self.norm(self.blocks(x)))  # type: ignore[no-any-return]


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy per character."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


Pair = tuple[Tensor, Tensor]


@cache
def data() -> tuple[Pair, Pair, Pair, int]:
    """Return texts with the characters that follow, in three parts, and the number of characters.

    Training texts overlap by half.
    """
    text = "".join(topics[name] for name in sorted(topics))[:CHARACTERS]
    letters = {letter: i for i, letter in enumerate(sorted(set(text)))}
    codes = torch.tensor([letters[letter] for letter in text])
    ends = [0, CHARACTERS * 90 // 100, CHARACTERS * 95 // 100, CHARACTERS]
    train, validation, test = (
        codes[a:b].unfold(0, LENGTH + 1, stride)
        for a, b, stride in zip(ends, ends[1:], (LENGTH // 2, LENGTH, LENGTH), strict=False)
    )
    pairs = [(t[:, :-1].contiguous(), t[:, 1:].contiguous()) for t in (train, validation, test)]
    return pairs[0], pairs[1], pairs[2], len(letters)


def gpt() -> GPT:
    """Return the model."""
    return GPT(data()[3])


def narrow() -> GPT:
    """Return the model at half the width."""
    return GPT(data()[3], width=WIDTH // 2)


def make_task(
    model: Callable[[], GPT] = gpt, batch: int = BATCH, name: str = "gpt", size: str = "114 k"
) -> Task:
    """Return the task."""
    train, validation, test, _ = data()
    return Task.from_module(
        model,
        train,
        loss,
        validation=validation,
        test=test,
        objective=Objective("validation loss", over="tail"),
        batch_size=batch,
        steps=STEPS,
        lrs=LRS,
        name=name,
        description=f"GPT of {size} parameters on the characters of Python's documentation;"
        " validation loss",
    )


task = make_task()
small = make_task(narrow, batch=4, name="gpt-small", size="32 k")
