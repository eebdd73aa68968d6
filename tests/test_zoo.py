import random

import numpy as np
import pytest
import torch

from optsmith import OptsmithError, Rule, RuleOptimizer, zoo
from optsmith.rules import for_role
from optsmith.screening import Screen
from optsmith.screening._probe import Probe
from optsmith.screening._trajectory import Trajectory, gaussian

PUBLISHED = {
    "mnist1": "m1 + RMSprop*exp(Adam)",
    "mnist2": "m1*(exp(Adam) + exp(exp(Adam))) + RMSprop",
    "mnist3": "m1 + RMSprop*rd^g3",
    "conv1": "cd*drop(g)/ld",
    "conv2": "cd*sign(m1)*abs(m2)^(sqrt(abs(ld))/2)",
    "conv3": "drop(cd*m1)",
    "conv4": "m1*(rd + abs(g))*exp(cd)",
    "attack1": "log(abs(cd + sign(g)))",
    "attack2": "log(abs(cd + exp(g3)*sign(g)))",
    "attack3": "log(abs(ld + sign(RMSprop)))",
    "products1": "ld*sign(m1) - Adam",
    "products2": "ld*(sign(m1) - RMSprop)",
    "cora": "sign(m1) + m3",
    "citeseer": "drop((sign(g) - m1)/cd)",
    "pubmed": "sign(m1) + sign(m1 - drop(g3))",
    "ppi": "drop(rd^2)*sign(m1)",
    "cola1": "drop(Adam + g3)",
    "cola2": "sign(m1^(clip(rd) + clip(sign(g)) - sign(m1)))",
    "mrpc": "drop(clip(sign(g) + sign(RMSprop)*rd))",
    "stsb": "sign(RMSprop + 2/(g + m3))",
    "rte": "drop(clip(m1 - sqrt(abs(drop(g3)))*sign(m1)))",
    "wnli": "sign(m1) - m3",
}
OTHERS = {
    *(f"{kind}-{decay}" for kind in ("powersign", "addsign") for decay in ("ld", "cd")),
    *("sgd", "momentum", "nesterov", "adam", "rmsprop", "lion", "signsgd", "signum"),
}
MODERN = {
    *("adamw", "nadam", "radam", "rmsprop-momentum", "adagrad", "muon", "lars", "lamb"),
    *("cautious-adamw", "ademamix", "grams", "shampoo"),
}


def test_who_is_in():
    assert len(PUBLISHED) == 22
    assert set(PUBLISHED) | OTHERS | MODERN == set(zoo)
    for name, text in PUBLISHED.items():
        assert zoo[name].rule == Rule.parse(text)


@pytest.mark.parametrize("name", zoo)
def test_entries(name):
    entry = zoo[name]
    assert entry.name == name
    assert entry.rule == Rule.parse(entry.text)
    assert Rule.parse(str(entry.rule)) == entry.rule
    assert len(entry.source) > 5
    assert len(entry.note) > 5
    assert entry.rule.latex()


@pytest.mark.parametrize("name", zoo)
def test_entries_are_screened(name):
    for is_hidden in (True, False):
        screening = Screen()(for_role(zoo[name].rule, is_hidden))
        assert screening.scale_fingerprint
        if name in MODERN | OTHERS:
            assert screening.ok, screening.reason


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", zoo)
def test_entries_train_a_model(name, dtype):
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Linear(2, 3)).to(dtype)
    optimizer = RuleOptimizer(network, zoo[name].rule, lr=1e-3, total_steps=4)
    before = [p.detach().clone() for p in network.parameters()]
    for t in range(4):
        for i, p in enumerate(network.parameters()):
            p.grad = torch.linspace(-1, 2, p.numel(), dtype=dtype).reshape(p.shape) / (1 + i + t)
        optimizer.step()
    for p, old in zip(network.parameters(), before, strict=True):
        assert p.isfinite().all()
        assert (p != old).any()


def test_a_name_is_taken_once():
    with pytest.raises(OptsmithError, match='named "lion"'):
        zoo.add("lion", zoo["lion"])
    with pytest.raises(OptsmithError, match='did you mean "lion"'):
        zoo.remove("lionn")


TAUS = [(t + 1) / 21 for t in range(20)]


def updates(name, g):
    taus = torch.tensor(TAUS, dtype=torch.float64)
    return Probe([Trajectory(g, taus, g.shape[1], range(len(g)))], 0).run(zoo[name].rule)[0]


def gradients():
    return gaussian(random.Random(3), 20, 50)


def test_lion():
    g = gradients()
    m, expected = np.zeros(50), []
    for row in g.numpy():
        expected.append(np.sign(0.9 * m + 0.1 * row))
        m = 0.99 * m + 0.01 * row
    np.testing.assert_array_equal(updates("lion", g), expected)


@pytest.mark.parametrize(
    ("kind", "decay"), [(k, d) for k in ("power", "add") for d in ("ld", "cd")]
)
def test_powersign_and_addsign(kind, decay):
    g = gradients()
    m, expected = np.zeros(50), []
    for row, tau in zip(g.numpy(), TAUS, strict=True):
        m = 0.9 * m + 0.1 * row
        f = 1 - tau if decay == "ld" else 0.5 * (1 + np.cos(np.pi * tau))
        agreement = f * np.sign(row) * np.sign(m)
        expected.append((np.exp(agreement) if kind == "power" else 1 + agreement) * row)
    np.testing.assert_allclose(updates(f"{kind}sign-{decay}", g), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("sgd", lambda p: torch.optim.SGD(p, 1.0)),
        ("momentum", lambda p: torch.optim.SGD(p, 1.0, momentum=0.9)),
        ("nesterov", lambda p: torch.optim.SGD(p, 1.0, momentum=0.9, nesterov=True)),
        ("adam", lambda p: torch.optim.Adam(p, 0.003)),
        ("rmsprop", lambda p: torch.optim.RMSprop(p, 0.03)),
    ],
)
def test_classics_are_torchs(name, optimizer):
    g = gradients()
    p = torch.zeros(50, dtype=torch.float64, requires_grad=True)
    opt = optimizer([p])
    for row, update in zip(g, updates(name, g), strict=True):
        before = p.detach().clone()
        p.grad = row.clone()
        opt.step()
        np.testing.assert_allclose((before - p.detach()).numpy(), update, rtol=1e-9, atol=1e-12)
