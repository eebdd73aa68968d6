"""Baselines: texts, sets, schedules, equality with reference implementations, other packages."""

from __future__ import annotations

import math

import pytest
import torch
from runs import STEPS, assert_near, parameters, run
from torch import nn

from optsmith import Rule, RuleOptimizer, Task, zoo
from optsmith._errors import TaskError
from optsmith.optim import (
    Baseline,
    baselines_text,
    build,
    classic,
    find_baselines,
    form_of,
    modern,
    parse_recipe,
    size_form,
    state_bytes,
)
from optsmith.optim import _known as known_module
from optsmith.optim._known import KNOWN
from optsmith.task import Run

EVERY = [Baseline(name, schedule) for name in KNOWN for schedule in KNOWN[name].schedules]
EXTRAS = [name for name, known in KNOWN.items() if known.package]
SCHEDULE_FREE = ["schedulefree:adamw", "schedulefree:sgd"]


def needs(baseline):
    """Skip a test if the optimizer is not installed."""
    if baseline.missing:
        pytest.skip(f"{baseline}: {baseline.missing}")


def model(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).double()


def data():
    return torch.linspace(-1, 1, 32, dtype=torch.float64).reshape(8, 4)


def loss_of(network):
    return (network(data()) - 1).square().mean()


def trained(network, optimizer, steps=STEPS, scheduler=None):
    for _ in range(steps):
        network.zero_grad()
        loss_of(network).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return [p.detach().clone() for p in network.parameters()]


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("baseline", [*EVERY, Baseline.parse("apgd")], ids=str)
def test_a_text_is_parsed_back(baseline):
    assert Baseline.parse(str(baseline)) == baseline


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("torch:adamm", 'did you mean "adam"'),
        ("torch:adam+cosin", 'did you mean "cosine"'),
        ("schedulefree:adamw+cosine", "known: constant, warmup"),
        ("torch:adam+warmup", 'did you mean "warmup-cosine"'),
        ("apgd+cosine", 'must be "apgd"'),
    ],
)
def test_unknown_texts_are_refused(text, message):
    with pytest.raises(TaskError, match=message):
        Baseline.parse(text)


def test_the_rule_and_the_baseline_of_lion_have_different_texts():
    assert parse_recipe("lion") == Rule.parse("sign(m1(0.99) + 10*g)")
    assert parse_recipe("optsmith:lion+cosine") == Baseline("optsmith:lion", "cosine")


# --- sets -----------------------------------------------------------------------------------------


def test_sets():
    optimizers = ["sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop"]
    suffixes = ["", "+linear", "+cosine"]
    assert list(classic) == [f"torch:{name}{suffix}" for name in optimizers for suffix in suffixes]
    assert len(modern) == 11 * 4
    assert classic.keys() < modern.keys()
    assert [str(b) for b in find_baselines("task", classic)[0]] == list(classic)
    assert find_baselines("none", modern) == ((), ())
    assert [str(b) for b in find_baselines("classic", classic)[0]] == list(classic)
    first = [str(b) for b in find_baselines("classic", {})[0]]
    assert first[:2] == ["torch:adamw+cosine", "torch:nesterov+cosine"]
    assert sorted(first) == sorted(classic)


def test_names():
    def found(chosen):
        return [str(b) for b in find_baselines(chosen, {})[0]]

    assert found("adam+constant, sgd+linear,adam+constant") == ["torch:adam", "torch:sgd+linear"]
    assert len(found("lion")) == len(found("torch:adam")) == 4
    assert found(["apgd", Baseline("sgd")]) == ["apgd", "torch:sgd"]
    assert "torch:adamw+cosine" in found("adamw")
    with pytest.raises(TaskError, match='no baseline "adamm"; did you mean "adam"'):
        found("sgd,adamm")
    with pytest.raises(TaskError, match='did you mean "modern"'):
        found("moderm")


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ("none", "none"),
        ("classic", "classic"),
        ("modern", "modern"),
        ("sgd+constant,muon+cosine", "torch:sgd+constant,torch:muon+cosine"),
        ("apgd", "apgd"),
    ],
)
def test_a_choice_has_a_text(chosen, text):
    found = find_baselines(chosen, {})[0]
    if chosen != "modern" or not Baseline("muon").missing:
        assert baselines_text(found) == text
        assert find_baselines(text, {})[0] == found


def test_what_is_not_installed_is_left_out_of_sets_and_refused_by_name(monkeypatch):
    monkeypatch.setattr(known_module, "find_spec", lambda name: None)
    monkeypatch.delattr(torch.optim, "Muon", raising=False)
    found, notes = find_baselines("all", {})
    assert len(found) == 10 * 4
    assert len(notes) == 2
    (extras,) = [note for note in notes if "pip install 'optsmith[opponents]'" in note]
    assert all(name in extras for name in EXTRAS)
    assert any("torch:muon, it requires torch 2.9" in note for note in notes)
    for name in ("schedulefree", "soap", "schedulefree:sgd", Baseline("prodigyopt:prodigy")):
        with pytest.raises(TaskError, match=r"not installed \(pip install 'optsmith\[opponents\]'"):
            find_baselines([name], {})
    with pytest.raises(TaskError, match="pytorch_optimizer:soap is not available: not installed"):
        parse_recipe("pytorch_optimizer:soap")
    Baseline.parse("pytorch_optimizer:soap")  # texts of studies can be read without it


def test_user_tasks_are_compared_with_the_modern_set_and_the_papers_with_the_classic():
    def loop(run):
        yield 0.0

    task = Task.from_function(loop, steps=4)
    assert task.baselines == modern
    from optsmith.task import find_task

    assert find_task("digits").baselines == classic


# --- schedules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("warmup-cosine", [0.5, 1.0, 0.5 * (1 + math.cos(math.pi / 18))]),
        ("linear", [19 / 20, 18 / 20, 17 / 20]),
    ],
)
def test_rates_of_the_first_and_last_steps(schedule, rates):
    w = torch.zeros(1, requires_grad=True)
    optimizer = Baseline("sgd", schedule).build([w], 1.0, 19)
    seen = []
    for _ in range(19):
        w.grad = torch.ones(1)
        optimizer.step()
        seen.append(optimizer.param_groups[0]["lr"])
    assert seen[:3] == pytest.approx(rates)
    assert 0 < seen[-1] < 0.06


@pytest.mark.parametrize("baseline", EVERY, ids=str)
def test_the_code_of_a_baseline_trains_as_the_baseline_does(baseline):
    needs(baseline)
    one, two = model(), model()
    ours = trained(one, build(baseline, one, 0.01, STEPS), STEPS)
    names = {"model": two, "torch": torch, "math": math, "total_steps": STEPS}
    module = baseline.known.path.partition(".")[0]
    names[module] = __import__(module)
    names["optimizer"] = optimizer = eval(baseline.torch_call(0.01), names)  # noqa: S307
    if baseline.optimizer in SCHEDULE_FREE:
        optimizer.train()
    code = baseline.scheduler_call()
    scheduler = eval(code, names) if code else None  # noqa: S307
    assert (scheduler is None) == (baseline.schedule == "constant")
    assert_near(trained(two, optimizer, STEPS, scheduler), ours, rtol=1e-9, atol=1e-12)
    assert all(p.isfinite().all() for p in ours)
    assert loss_of(one) < loss_of(model())


def test_descriptions():
    assert Baseline("adam", "cosine").describe() == "Adam, cosine decay to 0"
    assert "weight decay 0.01" in Baseline("adamw").describe()
    call = Baseline("adamw").torch_call(0.003)
    assert call == "torch.optim.AdamW(model.parameters(), lr=0.003, weight_decay=0.01)"


# --- rules ----------------------------------------------------------------------------------------


class Lion(torch.optim.Optimizer):
    """The algorithm of the publication, without weight decay."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p -= group["lr"] * (0.9 * m + 0.1 * p.grad).sign()
                m.mul_(0.99).add_(p.grad, alpha=0.01)


def test_lion_is_the_published_algorithm():
    ours, reference = parameters(), parameters()
    steps = range(1, STEPS + 1)
    found = run(build(Baseline("optsmith:lion"), ours, 0.02, STEPS), steps)[-1]
    assert_near(found, run(Lion(reference, 0.02), steps)[-1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "warmup-cosine"])
@pytest.mark.parametrize("name", [name for name, known in KNOWN.items() if known.rule])
def test_the_rule_of_a_baseline_trains_as_the_baseline_does(name, schedule):
    """This includes weight decay, which the schedule multiplies as it does in torch."""
    baseline = Baseline(name, schedule)
    needs(baseline)
    form = baseline.as_rule()
    one, two = model(), model()
    ours = trained(one, RuleOptimizer(one, form.rule, 0.01 * form.scale, STEPS))
    theirs = trained(two, build(baseline, two, 0.01, STEPS))
    # torch's Muon iterates in bfloat16, and the rule in the precision of the parameters.
    tolerance = 2e-2 if name == "muon" else 1e-7 if name == "nadam" else 1e-9
    assert_near(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["adamw", "nadam", "radam", "muon", "lion"])
def test_a_rule_of_the_zoo_has_the_learning_rate_of_the_baseline(name):
    form = form_of(Baseline.parse(name))
    assert (form.rule, form.scale) == (zoo[name].rule, 1.0)
    assert form_of(parse_recipe(name)).rule == form.rule


def test_learning_rates_are_placed_by_rules_without_warmup():
    assert size_form(Baseline("adam", "warmup-cosine")) == form_of(Baseline("adam", "cosine"))
    assert size_form(Baseline("schedulefree:sgd", "warmup")).rule == Rule.parse("g")
    assert size_form(Baseline("radam")).rule == Rule.parse("Adam")  # its first steps are small
    assert size_form(Baseline("muon")) == form_of(Baseline("muon"))
    assert size_form(Baseline("schedulefree:adamw")).rule == Rule.parse("Adam")
    assert form_of(Baseline("schedulefree:adamw")) is None
    assert size_form(Baseline("adafactor")) is None
    assert size_form(Baseline.parse("apgd")) is None


# --- optimizers of other packages -----------------------------------------------------------------


@pytest.mark.parametrize("name", EXTRAS)
def test_a_state_dict_restores_the_run_to_the_bit(name):
    baseline = Baseline(name, KNOWN[name].schedules[-1])
    needs(baseline)
    whole = model()
    expected = trained(whole, build(baseline, whole, 0.01, 20), 20)
    first, second = model(), model()
    half = build(baseline, first, 0.01, 20)
    trained(first, half, 9)
    second.load_state_dict(first.state_dict())
    resumed = build(baseline, second, 0.01, 20)
    resumed.load_state_dict(half.state_dict())
    for a, b in zip(trained(second, resumed, 11), expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", SCHEDULE_FREE)
def test_the_weights_of_schedule_free_follow_the_mode_of_the_model(name):
    needs(Baseline(name))
    network = model()
    optimizer = build(Baseline(name), network, 0.05, 20)
    training = trained(network, optimizer, 20)
    network.eval()
    loss_of(network)
    evaluated = [p.detach().clone() for p in network.parameters()]
    assert not optimizer.param_groups[0]["train_mode"]
    assert not any(torch.allclose(a, b) for a, b in zip(evaluated, training, strict=True))
    network.train()
    loss_of(network)
    assert_near([p.detach() for p in network.parameters()], training, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SCHEDULE_FREE)
def test_warmup_of_schedule_free_is_its_own(name):
    needs(Baseline(name))
    import schedulefree

    one, two = model(), model()
    ours = trained(one, build(Baseline(name, "warmup"), one, 0.05, 49), 49)
    kind = {"adamw": schedulefree.AdamWScheduleFree, "sgd": schedulefree.SGDScheduleFree}
    theirs = kind[name.partition(":")[2]](two.parameters(), lr=0.05, warmup_steps=5)
    theirs.train()
    assert_near(trained(two, theirs, 49), ours, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SCHEDULE_FREE)
def test_schedule_free_needs_the_model(name):
    needs(Baseline(name))
    with pytest.raises(TaskError, match="pass the model instead of its parameters"):
        build(Baseline(name), model().parameters(), 0.1, 10)


@pytest.mark.parametrize("grouped", [False, True])
def test_module_tasks_evaluate_the_right_weights_of_schedule_free(grouped):
    needs(Baseline("schedulefree:adamw"))
    x, y = data().float(), torch.ones(8, 2)

    def groups(network):
        return [{"params": list(network.parameters())}]

    task = Task.from_module(
        lambda: model().float(),
        (x, y),
        nn.functional.mse_loss,
        steps=20,
        validation=(x + 0.5, y),
        test=(x + 0.25, y),
        metric=lambda output, target: (output - target).abs().mean(),
        direction="minimize",
        batch_size=8,
        groups=groups if grouped else None,
    )
    recipe = Baseline("schedulefree:adamw")
    signals = list(task.start(Run(recipe, 0.05, 0, 20)))
    network = model().float()
    optimizer = build(recipe, network, 0.05, 20)
    for _ in range(20):
        network.zero_grad()
        nn.functional.mse_loss(network(x), y).backward()
        optimizer.step()
    optimizer.eval()
    network.eval()
    expected = (network(x + 0.5) - y).abs().mean().detach()
    assert float(signals[-1]) == pytest.approx(float(expected), rel=1e-5)


def test_state_of_soap_includes_its_matrices():
    needs(Baseline("pytorch_optimizer:soap"))
    network = model()
    optimizer = build(Baseline("pytorch_optimizer:soap"), network, 0.01, 10)
    trained(network, optimizer, 3)
    # Two moments per parameter, and two matrices per dimension of the weights 6x4 and 2x6.
    numbers = 2 * 44 + 2 * (36 + 16 + 4 + 36)
    assert state_bytes(optimizer) == pytest.approx(8 * numbers / 44)
