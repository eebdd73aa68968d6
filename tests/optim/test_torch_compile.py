"""`torch.compile` around training steps, and schedulers that cycle momentum.

Both `RuleOptimizer` and exported files are tested.
"""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR

from optsmith import Rule, RuleOptimizer
from optsmith.optim import _fused, export

STEPS = 10
RULES = ["cd*m1", "ld*drop(m1) - Adam"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return the exported class of each rule."""
    classes = {}
    for i, text in enumerate(RULES):
        path = tmp_path_factory.mktemp("exported") / f"exported_{i}.py"
        path.write_text(export(Rule.parse(text), "Exported"))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.BUCKET == _fused.BUCKET
        classes[text] = module.Exported
    return classes


@pytest.fixture(params=["optimizer", "file"])
def make(request, exported):
    """Return a function that makes an optimizer from parameters, the text of a rule and options."""

    def build(params, text, **options):
        options |= {"lr": 0.05, "total_steps": 2 * STEPS}
        if request.param == "file":
            return exported[text](params, **options)
        return RuleOptimizer(params, text, **options)

    return build


def train(make, text, compiled=None, **options):
    """Train a small network and return its parameters; `compiled` is what torch.compile gets."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    optimizer = make(net.parameters(), text, **options)
    inputs = torch.randn(8, 4)
    update = optimizer.step
    if compiled == "step":
        update = torch.compile(update, backend="eager")

    def step():
        optimizer.zero_grad()
        net(inputs).square().mean().backward()
        update()

    if compiled == "whole":
        step = torch.compile(step, backend="eager")
    for _ in range(STEPS):
        step()
    return [p.detach() for p in net.parameters()], optimizer


@pytest.mark.parametrize("compiled", ["whole", "step"])
@pytest.mark.parametrize("text", RULES)
def test_torch_compile_around_steps_never_recompiles(make, text, compiled):
    expected, _ = train(make, text)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with torch._dynamo.config.patch(error_on_recompile=True):
        trained, optimizer = train(make, text, compiled)
    assert torch._dynamo.utils.counters["frames"]["ok"] > 0  # something was compiled
    assert optimizer.param_groups[0]["t"] == STEPS
    for p, q in zip(trained, expected, strict=True):
        assert torch.equal(p, q)


def test_torch_compile_around_steps_with_compiled_kernels(make, monkeypatch):
    def unchanged(graph, examples):
        return graph

    monkeypatch.setattr(torch._inductor, "standalone_compile", unchanged)
    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **k: compile_(f, **{**k, "backend": "eager"}))
    expected, _ = train(make, RULES[0], compile=True)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        trained, _ = train(make, RULES[0], "whole", compile=True)
    for p, q in zip(trained, expected, strict=True):
        torch.testing.assert_close(p, q)


SCHEDULERS = {
    "OneCycleLR": lambda o, **k: OneCycleLR(o, 0.1, total_steps=STEPS, **k),
    "CyclicLR": lambda o, **k: CyclicLR(o, 0.01, 0.1, step_size_up=3, **k),
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_schedulers_that_cycle_momentum_cycle_the_learning_rate_and_warn_once(make, scheduler):
    def run(**options):
        p = torch.nn.Parameter(torch.zeros(3))
        optimizer = make([p], RULES[0])
        schedule = SCHEDULERS[scheduler](optimizer, **options)
        rates = []
        for _ in range(4):
            p.grad = torch.ones(3)
            optimizer.step()
            rates.append(optimizer.param_groups[0]["lr"])
            schedule.step()
        return p.detach(), rates

    with pytest.warns(UserWarning, match="pass cycle_momentum=False") as caught:
        trained, rates = run()
    assert len(caught) == 1
    expected, same_rates = run(cycle_momentum=False)  # warnings are errors
    assert torch.equal(trained, expected)
    assert rates == same_rates
    assert len(set(rates)) > 1
