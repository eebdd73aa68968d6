"""Repeats the answer on characters without Optsmith (repeat_characters.py A.py B.py)."""

from pydoc_data.topics import topics

import torch
from paired import compare
from torch import nn

STEPS, BATCH, LENGTH = 200, 16, 32
text = "".join(topics[name] for name in sorted(topics))[:120_000]
codes = {c: i for i, c in enumerate(sorted(set(text)))}
text = torch.tensor([codes[c] for c in text])


def loss_of(net, text, starts):
    """Return the mean cross-entropy per character of pieces of text."""
    x = text[starts[:, None] + torch.arange(LENGTH + 1)]
    logits = net.out(net.gru(net.embed(x[:, :-1]))[0])
    return nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())


def score(make_optimizer, seed):
    """Train once; return the test loss over the last tenth of the run."""
    torch.manual_seed(seed)
    net, count, losses = nn.Module(), len(codes), []
    net.embed, net.gru = nn.Embedding(count, 32), nn.GRU(32, 64, batch_first=True)
    net.out = nn.Linear(64, count)
    optimizer = make_optimizer(net, total_steps=STEPS)
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss_of(net, text, torch.randint(96_000 - LENGTH - 1, (BATCH,))).backward()
        optimizer.step()
        if step > 0.9 * STEPS and step % 4 == 0:
            losses.append(loss_of(net, text[108_000:], torch.arange(0, 11_967, 120)).item())
    return sum(losses) / len(losses)


compare(score, range(7000, 7008))
