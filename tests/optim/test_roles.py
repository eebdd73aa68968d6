"""Roles of parameters, and Muon, which requires them."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from optsmith import Run, TaskError, decay_groups, roles
from optsmith.evaluation import Evaluation, Status
from optsmith.optim import Baseline, build, form_of, parse_recipe, state_bytes, with_roles

needs_muon = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has no Muon")


class Gpt(nn.Module):
    """A transformer whose head shares the embedding's weight."""

    def __init__(self, tied: bool = True) -> None:
        super().__init__()
        self.tokens = nn.Embedding(12, 8)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(8), "attention": nn.MultiheadAttention(8, 2)})
            for _ in range(2)
        )
        self.head = nn.Linear(8, 12, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, x):
        x = self.tokens(x)
        for block in self.blocks:
            h = block["norm"](x)
            x = x + block["attention"](h, h, h, need_weights=False)[0]
        return self.head(x)


def conv() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 5)
    )


def test_a_convolutional_network():
    assert roles(conv()) == {
        "0.weight": "hidden",
        "0.bias": "vector",
        "1.weight": "vector",
        "1.bias": "vector",
        "4.weight": "output",
        "4.bias": "vector",
    }


def test_a_tied_head_is_an_embedding_and_nothing_else_the_output():
    tied = roles(Gpt())
    assert tied["tokens.weight"] == "embedding"
    assert "head.weight" not in tied
    assert tied["blocks.0.attention.in_proj_weight"] == "hidden"
    assert tied["blocks.1.attention.out_proj.weight"] == "hidden"
    assert set(tied.values()) == {"embedding", "hidden", "vector"}
    assert roles(Gpt(tied=False))["head.weight"] == "output"


def test_a_head_defined_before_the_embedding_it_shares():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 6, bias=False)
            self.tokens = nn.EmbeddingBag(6, 4)
            self.tokens.weight = self.head.weight

    assert roles(Model()) == {"head.weight": "embedding"}


def test_parametrised_weights_belong_to_their_layer():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5))
    parametrizations.weight_norm(model[0])
    parametrizations.weight_norm(model[1])
    assert roles(model) == {
        "0.bias": "vector",
        "0.parametrizations.weight.original0": "vector",
        "0.parametrizations.weight.original1": "hidden",
        "1.bias": "vector",
        "1.parametrizations.weight.original0": "vector",
        "1.parametrizations.weight.original1": "output",
    }


def test_frozen_and_extra_matrices():
    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(6, 6).requires_grad_(False)
            self.a, self.b = nn.Parameter(torch.zeros(2, 6)), nn.Parameter(torch.zeros(6, 2))

    found = roles(nn.Sequential(Adapted(), nn.Linear(6, 3)))
    assert [found[f"0.{name}"] for name in ("a", "b", "base.weight")] == ["hidden"] * 3
    assert found["1.weight"] == "output"


def test_recurrent_layers_and_one_output():
    """A last layer with one output is a vector; the layer before it is hidden."""
    found = roles(nn.ModuleList([nn.LSTM(3, 4), nn.Linear(4, 1)]))
    assert found["0.weight_ih_l0"] == found["0.weight_hh_l0"] == "hidden"
    assert found["1.weight"] == "vector"


def test_matrices_are_outputs_times_the_rest():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.depthwise = nn.Conv2d(4, 4, 3, groups=4)
            self.positions = nn.Parameter(torch.zeros(1, 7, 4))
            self.head = nn.Linear(4, 2)

    found = roles(Model())
    assert (found["depthwise.weight"], found["positions"]) == ("hidden", "vector")


def test_weights_that_are_not_made_yet_are_refused():
    with pytest.raises(TaskError, match="run the model once"):
        roles(nn.LazyLinear(3))


def test_groups_are_split_by_role_unless_they_have_one():
    model = conv()
    params = list(model.parameters())
    groups = with_roles(
        model,
        [{"params": params[:4], "weight_decay": 0.1}, {"params": params[4:], "role": "hidden"}],
    )
    assert [(g["role"], len(g["params"]), g.get("weight_decay")) for g in groups] == [
        ("hidden", 1, 0.1),
        ("vector", 3, 0.1),
        ("hidden", 2, None),
    ]


def test_vectors_do_not_decay():
    model = conv()
    decayed, others = decay_groups(model)
    assert decayed["params"] == [model[0].weight, model[4].weight]
    assert (len(others["params"]), others["weight_decay"]) == (4, 0.0)
    torch.optim.AdamW(decay_groups(model))


@pytest.mark.parametrize("recipe", ["Adam", "drop(g)", "torch:adam+cosine"])
def test_a_module_is_as_good_as_its_parameters(recipe):
    """This includes rules with masks, which depend on the index of a parameter."""
    model = conv()
    other = copy.deepcopy(model)
    third = copy.deepcopy(model)
    run = Run(parse_recipe(recipe), 0.01, 3, 5)
    for trained, params in (
        (model, model),
        (other, other.parameters()),
        (third, third.named_parameters()),
    ):
        optimizer = run.optimizer(params)
        for _ in range(3):
            trained.zero_grad()
            trained(torch.ones(2, 3, 3, 3)).square().sum().backward()
            optimizer.step()
    for a, b, c in zip(model.parameters(), other.parameters(), third.parameters(), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_the_optimizer_of_an_evaluation_takes_a_module():
    model = conv()
    optimizer = Evaluation("m1", Status.OK, score=1.0, lr=0.1).optimizer(model)
    assert optimizer.param_groups[0]["params"] == list(model.parameters())


# --- Muon ----------------------------------------------------------------------------------------


def trained_once(model, optimizer, x, steps=3):
    for _ in range(steps):
        model.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


@needs_muon
def test_muon_is_torch_s_for_hidden_matrices_and_adamw_for_the_rest():
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    other = copy.deepcopy(model)
    x = torch.randn(8, 6)
    optimizer = build(parse_recipe("torch:muon"), model, 0.02, 10)
    ours = trained_once(model, optimizer, x)
    settings = {"lr": 0.02, "weight_decay": 0.01}
    hidden = [other[0].weight, other[2].weight]
    rest = [p for p in other.parameters() if not any(p is h for h in hidden)]
    muon = torch.optim.Muon(hidden, adjust_lr_fn="match_rms_adamw", **settings)
    adamw = torch.optim.AdamW(rest, **settings)
    for _ in range(3):
        other.zero_grad()
        other(x).square().mean().backward()
        muon.step()
        adamw.step()
    for a, b in zip(ours, other.parameters(), strict=True):
        assert torch.equal(a, b)
    assert state_bytes(optimizer) > 4


@needs_muon
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_convolutions_are_trained_as_matrices(layout):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.Flatten(), nn.Linear(4, 2))
    flat = copy.deepcopy(model)
    model = model.to(memory_format=layout)
    x = torch.randn(5, 3, 3, 3)
    ours = trained_once(model, build(parse_recipe("torch:muon"), model, 0.02, 10), x)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(27, 4, bias=False), nn.Linear(4, 2))
    with torch.no_grad():
        linear[1].weight.copy_(flat[0].weight.flatten(1))
        linear[2].load_state_dict(flat[2].state_dict())
    theirs = trained_once(linear, build(parse_recipe("torch:muon"), linear, 0.02, 10), x)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a.reshape(b.shape), b, atol=1e-3)
    assert not torch.equal(ours[0], flat[0].weight)


@needs_muon
@pytest.mark.parametrize("again", ["state_dict", "pickle", "deepcopy"])
def test_muon_can_be_saved_and_goes_on_to_the_bit(again):
    # torch does not copy hooks, so that copies have no schedule; a state_dict has the counters.
    recipe = parse_recipe("torch:muon+cosine" if again == "state_dict" else "torch:muon")
    model, x = conv(), torch.randn(4, 3, 3, 3)
    optimizer = build(recipe, model, 0.02, 10)
    trained_once(model, optimizer, x)
    if again == "state_dict":
        other = copy.deepcopy(model)
        resumed = build(recipe, other, 0.02, 10)
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        resumed.load_state_dict(torch.load(file, weights_only=True))
    else:
        copier = copy.deepcopy if again == "deepcopy" else lambda v: pickle.loads(pickle.dumps(v))
        other, resumed = copier((model, optimizer))
    one, two = trained_once(model, optimizer, x), trained_once(other, resumed, x)
    for a, b in zip(one, two, strict=True):
        assert torch.equal(a, b)


@needs_muon
def test_muon_needs_roles():
    recipe, model = parse_recipe("torch:muon"), conv()
    for params in (model.parameters(), model.named_parameters(), decay_groups(model)):
        with pytest.raises(TaskError, match="pass the model, or parameter groups with a role"):
            build(recipe, params, 0.1, 10)
    with pytest.raises(TaskError, match='not "deep"'):
        build(recipe, [{"params": list(model.parameters()), "role": "deep"}], 0.1, 10)
    groups = with_roles(model, decay_groups(model))
    build(recipe, groups, 0.1, 10)


@needs_muon
def test_muon_takes_groups_closures_and_schedulers():
    model = conv()
    optimizer = build(parse_recipe("torch:muon"), model, 0.1, 10)
    extra = nn.Parameter(torch.ones(3))
    optimizer.add_param_group({"params": [extra], "role": "vector", "lr": 0.0})
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(2, 3, 3, 3)).square().sum() + extra.sum()
        loss.backward()
        return loss

    assert optimizer.step(closure) > 0
    scheduler.step()
    assert {g["lr"] for g in optimizer.param_groups} == {0.05, 0.0}
    assert torch.equal(extra, torch.ones(3))


@needs_muon
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_the_rule_of_muon_trains_as_muon_does_and_needs_roles(schedule):
    torch.manual_seed(0)
    baseline = Baseline("muon", schedule)
    rule = form_of(baseline).rule
    # Without normalization, after which a gradient has a direction of rounding errors alone.
    one = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4, 5))
    two, x = copy.deepcopy(one), torch.randn(32, 3, 3, 3)
    before = [p.detach().clone() for p in one.parameters()]
    ours = trained_once(one, build(rule, one, 0.02, 3), x)
    theirs = trained_once(two, build(baseline, two, 0.02, 3), x)
    for a, b, old in zip(ours, theirs, before, strict=True):
        assert (a - b).norm() <= 0.03 * (b - old).norm()  # torch iterates in bfloat16
    with pytest.raises(TaskError, match="pass the model, or parameter groups with a role"):
        build(rule, one.parameters(), 0.02, 10)


def test_muon_needs_a_torch_that_has_it(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon", raising=False)
    with pytest.raises(TaskError, match=r"torch 2\.9 or later"):
        parse_recipe("torch:muon")


# --- schedules -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sgd", "adam", "rmsprop"])
def test_a_state_dict_carries_the_schedule(name):
    recipe = Baseline(name, "linear")
    w = torch.ones(3, requires_grad=True)

    def steps(optimizer, w, count):
        for _ in range(count):
            w.grad = w.detach() * 0.3
            optimizer.step()
        return w.detach().clone()

    whole = steps(recipe.build([w], 0.1, 8), w, 8)
    w = torch.ones(3, requires_grad=True)
    first = recipe.build([w], 0.1, 8)
    steps(first, w, 3)
    second = recipe.build([w], 0.1, 8)
    second.load_state_dict(first.state_dict())
    assert torch.equal(steps(second, w, 5), whole)


def test_the_rate_of_a_step_is_that_of_its_decay():
    w = torch.zeros(1, requires_grad=True)
    optimizer = Baseline("sgd", "linear").build([w], 0.1, 4)
    rates = []
    for _ in range(5):
        w.grad = torch.ones(1)
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [0.1 * (1 - t / 5) for t in (1, 2, 3, 4, 4)]
