"""Train with a rule that treats the matrices of hidden layers differently, and export it.

The rule is Muon for hidden matrices and AdamW for embeddings, the output layer, biases and norms,
written as one expression. The model learns to add three digits modulo 10; the data are made here.
The exported file needs only torch and trains alike, up to rounding (`orth` computes in bfloat16).
"""

import importlib.util
import tempfile
from pathlib import Path

import torch
from torch import nn

import optsmith
from optsmith.optim import export

torch.set_num_threads(1)
STEPS, BATCH, LR = 200, 128, 0.02
MUON = "0.2*fan*orth(mix(g, mom(g, 0.9), 0.1))"  # mix: Nesterov's momentum
ADAM = "ema(g, 0.9)/(sqrt(ema(g^2, 0.99)) + 1e-8)"
RULE = f"lin(0.2, 1, 0)*(hidden({MUON}, {ADAM}) + 0.01*w)"  # 0.01*w: decoupled weight decay


def make_model():
    """Return a network with an embedding, hidden matrices, norms and an output layer."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Embedding(10, 16),
        nn.Flatten(),
        *(nn.Linear(48, 64), nn.LayerNorm(64), nn.ReLU()),
        *(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU()),
        nn.Linear(64, 10),
    )


def train(model, optimizer):
    """Train on random sums and return the accuracy on all 1000 of them."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        digits = torch.randint(10, (BATCH, 3), generator=generator)
        loss = nn.functional.cross_entropy(model(digits), digits.sum(1) % 10)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    every = torch.cartesian_prod(*[torch.arange(10)] * 3)
    return (model(every).argmax(1) == every.sum(1) % 10).float().mean().item()


model = make_model()
for name, role in optsmith.roles(model).items():
    print(f"{name:<9} {role}")
optimizer = optsmith.RuleOptimizer(model, RULE, lr=LR, total_steps=STEPS)
print(f"the rule:          accuracy {train(model, optimizer):.1%}")

with tempfile.TemporaryDirectory() as folder:  # or: optsmith export RULE -o muon.py --name Muon
    path = Path(folder, "muon.py")
    path.write_text(export(optsmith.Rule.parse(RULE), "Muon"))
    spec = importlib.util.spec_from_file_location("muon", path)
    muon = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(muon)
model = make_model()
optimizer = muon.Muon(model, lr=LR, total_steps=STEPS)  # takes the model, or groups with a role
print(f"the exported file: accuracy {train(model, optimizer):.1%}")
