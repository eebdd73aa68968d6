"""Stacks of transformers and their losses compared with plain training."""

from __future__ import annotations

import pytest
import torch
from stack_samples import CPU, PROTOCOL, never, runs_of, same
from torch import nn
from torch.nn import functional
from torch.nn.functional import cross_entropy

from optsmith import Rule, Task
from optsmith.training import _train, choose_stacking, train_once
from optsmith.training.stacked._check import check_stack, footprint

COUNT, LENGTH, WIDTH = 7, 6, 8


class Transformer(nn.Module):
    """A block of causal attention and a perceptron."""

    def __init__(self, bias=True, mask=False, last=-1):
        super().__init__()
        self.mask, self.last = mask, last
        self.characters, self.places = nn.Embedding(COUNT, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=bias)
        self.wide, self.back = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH, bias=bias)
        self.out = nn.Linear(WIDTH, COUNT, bias=bias)

    def forward(self, text):
        x = self.characters(text) + self.places(torch.arange(LENGTH))
        query, key, value = (
            part.unflatten(-1, (2, -1)).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, dim=-1)
        )
        mask = torch.ones(LENGTH, LENGTH).tril().bool() if self.mask else None
        seen = functional.scaled_dot_product_attention(
            query, key, value, mask, is_causal=not self.mask
        )
        x = x + seen.transpose(1, 2).flatten(2)
        logits = self.out(x + self.back(functional.gelu(self.wide(x))))
        return logits.movedim(-1, self.last)


def flat(logits, targets):
    return cross_entropy(logits.flatten(0, 1), targets.flatten())


def ignoring(logits, targets):
    """Return a loss in which some characters do not count."""
    return cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)


def smooth(logits, targets):
    """Return a loss with a setting that is left to vmap."""
    return cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1)


def texts(count=120, seed=0):
    codes = torch.randint(COUNT, (count, LENGTH), generator=torch.Generator().manual_seed(seed))
    return codes, (codes.cumsum(1) % COUNT)


def task(make=Transformer, loss=flat):
    return Task.from_module(
        make, texts(), loss, validation=texts(40, 1), batch_size=8, protocol=PROTOCOL
    )


VARIANTS = {
    "plain": lambda: task(),
    "no bias": lambda: task(lambda: Transformer(bias=False)),
    "classes first": lambda: task(lambda: Transformer(last=1), cross_entropy),
    "ignored": lambda: task(loss=ignoring),
    "smooth": lambda: task(loss=smooth),
}
RULES = (
    "ema(g)/(ema(g^2, 0.999)^0.5 + 1e-8)",
    "hidden(0.2*fan*orth(mix(mom(g), g, 0.9)), m1/(m2^0.5 + 1e-8))",
    "hidden(whiten(ema(g), g, 0.9, 2), m1/(m2^0.5 + 1e-8))",
)


@pytest.mark.parametrize("kind", VARIANTS)
def test_transformers_can_be_stacked(kind):
    check_stack(VARIANTS[kind](), CPU)


def test_embeddings_make_the_kind():
    assert footprint(task(), CPU).kind == "tokens"


@pytest.mark.parametrize("text", RULES)
def test_a_stack_of_transformers_is_trained_as_each_alone(text):
    of = task(lambda: Transformer().double())
    runs = runs_of([Rule.parse(text)], steps=10)
    traces = _train.train(of, runs, never(of), choose_stacking(of, CPU, 4))
    for trace, run in zip(traces, runs, strict=True):
        same(trace, train_once(of, run))


def test_a_stack_of_settings_is_trained_as_each_alone():
    texts_of = [
        f"hidden(orth(mom(g, {b})), 0.3*m1/(m2^0.5 + 1e-8))*{c}" for b, c in ((0.8, 0.5), (0.9, 2))
    ]
    of = task(lambda: Transformer().double())
    runs = runs_of([Rule.parse(text) for text in texts_of], steps=10)
    traces = _train.train(of, runs, never(of), choose_stacking(of, CPU, 8))
    for trace, run in zip(traces, runs, strict=True):
        same(trace, train_once(of, run))
