"""Exported files of rules of the space `modern`: roles, whole tensors, weights and constants."""

from __future__ import annotations

import copy
import importlib.util
import itertools

import pytest
import torch
from runs import assert_near, assert_same, gradient
from torch import nn

from optsmith import Rule, RuleOptimizer
from optsmith.optim import export, roles

STEPS = 6
BY_ROLE = [
    "ld*hidden(0.2*fan*orth(mix(g, mom(g, 0.95), 0.1)), ema(g)/sqrt(ema(g^2, 0.99))) + 0.1*w",
    "hidden(drop(whiten(g, g, 0.9, 2)), drop(g)*drop(prev(w)))",
    "hidden(hidden(unit(g), m1), 3*hidden(m1, sign(m1)))",
    "sign(hidden(g, ld) + w)",
    "hidden(m1, Adam)",
]
_numbers = itertools.count()


@pytest.fixture
def load(tmp_path):
    """Return a function that exports a rule and imports the file."""

    def imported(text):
        path = tmp_path / f"rule_{next(_numbers)}.py"
        path.write_text(export(Rule.parse(text), "Exported"))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return imported


def model(dtype=torch.float64):
    torch.manual_seed(0)
    layers = nn.ModuleDict(
        {
            "embedding": nn.Embedding(7, 4),
            "tall": nn.Linear(4, 6),
            "wide": nn.Linear(6, 3, bias=False),
            "convolution": nn.Conv2d(3, 4, 2),
            "norm": nn.LayerNorm(6),
            "column": nn.Linear(6, 1),
            "output": nn.Linear(6, 5),
        }
    )
    layers.register_parameter("scale", nn.Parameter(torch.ones(())))
    return layers.to(dtype)


def step(optimizer, net, t):
    for i, p in enumerate(net.parameters()):
        p.grad = gradient(p, i, t)
    optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("text", BY_ROLE)
def test_a_model_trains_alike_step_by_step(text, dtype, load):
    net = model(dtype)
    assert set(roles(net).values()) == {"hidden", "embedding", "output", "vector"}
    twin, settings = copy.deepcopy(net), {"lr": 0.1, "total_steps": STEPS, "seed": 4}
    optimizer = RuleOptimizer(net, text, **settings, weight_decay=0.1)
    exported = load(text).Exported(twin, **settings, weight_decay=0.1)
    tolerance = {torch.float64: 1e-10, torch.float32: 2e-4, torch.bfloat16: 3e-2}[dtype]
    for t in range(1, STEPS + 1):
        step(optimizer, net, t)
        step(exported, twin, t)
        pair = ([p.detach() for p in m.parameters()] for m in (net, twin))
        assert_near(*pair, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("text", BY_ROLE)
def test_state_goes_on_to_the_bit_here_and_there(text, load):
    module, net = load(text), model(torch.bfloat16)
    whole = module.make_optimizer(net, lr=0.1, total_steps=STEPS)
    for t in range(1, 4):
        step(whole, net, t)
    twin, third = copy.deepcopy(net), copy.deepcopy(net)
    second = module.Exported(twin, lr=1.0, total_steps=1)
    second.load_state_dict(whole.state_dict())
    rule = RuleOptimizer(third, text, lr=1.0, total_steps=1)
    rule.load_state_dict(whole.state_dict())
    for t in range(4, STEPS + 1):
        step(whole, net, t)
        step(second, twin, t)
        step(rule, third, t)
    assert_same(*([p.detach() for p in m.parameters()] for m in (net, twin)))
    assert_same(whole.state_dict(), second.state_dict())
    module.Exported(twin, lr=1.0, total_steps=1).load_state_dict(rule.state_dict())


def test_groups_have_roles(load):
    exported = load(BY_ROLE[0]).Exported
    net, settings = model(), {"lr": 0.1, "total_steps": STEPS}
    for bare in (net.parameters(), net.named_parameters(), [{"params": net.parameters()}]):
        with pytest.raises(ValueError, match=r"pass the model, or parameter groups with a role"):
            exported(bare, **settings)
    params = list(net.parameters())
    with pytest.raises(ValueError, match=r'a role must be one of .*, not "middle"'):
        exported([{"params": params, "role": "middle"}], **settings)
    optimizer = exported([{"params": params[:1], "role": "hidden"}], **settings)
    with pytest.raises(ValueError, match="pass the model"):
        optimizer.add_param_group({"params": params[1:]})
    optimizer.add_param_group({"params": params[1:], "role": "vector"})
    step(optimizer, net, 1)
    kept = [set(optimizer.state[p]) for p in params]
    assert kept == [{"step", "momentum"}] + [{"step", "average", "average.2"}] * (len(params) - 1)
    with pytest.raises(ValueError, match="compile=True does not support"):
        exported(net, **settings, compile=True)


def test_element_wise_rules_by_role_are_compiled(load, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    net = model()
    twin = copy.deepcopy(net)
    module = load("hidden(m1*drop(g), drop(drop(Adam))) + w")
    pair = [module.Exported(m, lr=0.1, compile=c) for m, c in ((net, False), (twin, True))]
    for t in range(1, 4):
        step(pair[0], net, t)
        step(pair[1], twin, t)
    assert_near(*([p.detach() for p in m.parameters()] for m in (net, twin)))


NUMBERS = [
    "max(2, g) - min(g, 0.5) + max(ld, 0.25)*min(w, k)",
    "mix(2, g, 0.3) + mix(g, 2, 0.3) + mix(3, k, 0.1)",
    "g*ema(2) + g*prev(3) + mom(0.5)*w",
    "relu(g)*relu(2) + g*max(1, 2)",
    "g + exp(log(0))",
    "prev(g)*prev(prev(g)) - prev(w)",
    "prev(m1) + m1 - mom(prev(m1))",
    "w + mom(w, 1)*ema(prev(w), 0)",
]


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_and_old_values(text, load):
    net = model()
    twin = copy.deepcopy(net)
    optimizer = RuleOptimizer(net, text, lr=0.1, total_steps=STEPS)
    exported = load(text).Exported(twin.parameters(), lr=0.1, total_steps=STEPS)
    for t in range(1, STEPS + 1):
        step(optimizer, net, t)
        step(exported, twin, t)
    assert_near(*([p.detach() for p in m.parameters()] for m in (net, twin)), rtol=1e-9, atol=1e-9)


def test_a_decomposition_that_fails_gives_nan(load):
    net = model()
    twin = copy.deepcopy(net)
    text = "whiten(g, g, 0.9, 1) + whitenr(g, w)"
    optimizer = RuleOptimizer(net, text, lr=0.1)
    exported = load(text).Exported(twin.parameters(), lr=0.1)
    for m, opt in ((net, optimizer), (twin, exported)):
        for i, p in enumerate(m.parameters()):
            p.grad = gradient(p, i, 1)
        m["tall"].weight.grad[0, 0] = torch.nan
        opt.step()
    assert twin["tall"].weight.isnan().all()
    assert_near(*([p.detach() for p in m.parameters()] for m in (net, twin)), rtol=1e-9, atol=1e-9)


def test_the_file_reads_well():
    text = export(Rule.parse(BY_ROLE[0]))
    for line in (
        "    momentum = g + momentum * 0.95\n",
        "orthogonal(momentum.lerp(g, 0.1))",
        "    average_2 = average_2.lerp(g, 1 - 0.9)\n",
        "        square = wide.bmm(wide.mT)\n",
        "def update_of_hidden(\n",
        "def update_of_others(\n",
        "    ld*(ema(g)/sqrt(|ema(g^2, 0.99)|)) + 0.1*w\n",
    ):
        assert line in text
    whitened = export(Rule.parse("whiten(g, m1)"))
    assert "    left, right, left_root, right_root = whiten_update(g, momentum, " in whitened
    lines = [line for line in text.splitlines() if "hidden(0.2" not in line]
    assert max(map(len, lines)) <= 100


def test_sharded_parameters_are_refused_for_whole_tensors(load):
    flat = nn.Parameter(torch.ones(4))
    flat._is_flat_param = True  # as set by FSDP
    load("m1 + prev(w)").Exported([flat], lr=0.1)
    with pytest.raises(ValueError, match="parameters must not be sharded"):
        load("orth(g)").Exported([flat], lr=0.1)
