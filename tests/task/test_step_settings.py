"""Clipping, accumulation, parameter groups, weight decay and mixed precision of module tasks."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

import optsmith
from optsmith import Run, Task, TaskError, decay_groups
from optsmith.optim import parse_recipe
from optsmith.testing import check_task
from optsmith.training import train_once
from optsmith.training.stacked._check import NotStackableError, footprint
from tasks_for_tests import PROTOCOL, line, line_data


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 1))


TRAINING = {"protocol": PROTOCOL, "objective": "training loss"}


def task_of(**settings) -> Task:
    defaults = {"batch_size": 16, "test": line_data(32, 1), **TRAINING}
    return Task.from_module(net, line_data(), mse_loss, **defaults | settings)


def signal(task, recipe="g", **changes) -> list[float]:
    run = Run(parse_recipe(recipe), **{"lr": 0.05, "seed": 5, "steps": 9, **changes})
    return [value for _, value in train_once(task, run).signal]


def by_hand(change, batch=16, recipe="g"):
    """Return the losses of a plain loop that changes the gradients before each step."""
    x, y = line_data()
    torch.manual_seed(5)
    model = net()
    generator = torch.Generator().manual_seed(5)
    order = torch.cat([torch.randperm(64, generator=generator) for _ in range(9)])
    optimizer = parse_recipe(recipe)
    optimizer = Run(optimizer, 0.05, 5, 9).optimizer(model.parameters())
    losses = []
    for rows in order.view(-1, batch)[:9]:
        model.zero_grad()
        loss = mse_loss(model(x[rows]), y[rows])
        loss.backward()
        change(model)
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("recipe", ["g", "Adam", "torch:momentum"])
def test_clipping(recipe):
    expected = by_hand(lambda m: nn.utils.clip_grad_norm_(m.parameters(), 0.1), recipe=recipe)
    assert signal(task_of(clip_norm=0.1), recipe) == expected
    assert signal(task_of(), recipe) != expected


@pytest.mark.parametrize("recipe", ["g", "Adam", "torch:adamw+linear"])
def test_weight_decay_is_added_to_the_gradient_of_every_recipe(recipe):
    def decay(model):
        for p in model.parameters():
            p.grad.add_(p.detach(), alpha=0.3)

    assert signal(task_of(weight_decay=0.3), recipe) == by_hand(decay, recipe=recipe)


def test_decay_comes_after_clipping():
    def both(model):
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        for p in model.parameters():
            p.grad.add_(p.detach(), alpha=0.3)

    assert signal(task_of(weight_decay=0.3, clip_norm=0.1)) == by_hand(both)


@pytest.mark.parametrize("recipe", ["g", "Adam", "torch:adam"])
def test_groups_have_their_own_decay(recipe):
    def decay(model):
        for p in (model[0].weight, model[3].weight):
            p.grad.add_(p.detach(), alpha=0.3 if p is model[0].weight else 0.1)

    def groups(model):
        vectors = [p for p in model.parameters() if p.ndim < 2]
        return [
            {"params": [model[0].weight]},
            {"params": [model[3].weight], "weight_decay": 0.1},
            {"params": vectors, "weight_decay": 0.0},
        ]

    found = signal(task_of(weight_decay=0.3, groups=groups), recipe)
    assert found == pytest.approx(by_hand(decay, recipe=recipe), rel=1e-5)


def test_a_group_without_decay_has_none_of_the_recipe_s_either():
    run = Run(parse_recipe("torch:adamw"), 0.05, 5, 9)
    train_once(task_of(groups=decay_groups, weight_decay=0.2), run)
    found = {(g["role"], g["weight_decay"]) for g in run.built[0].param_groups}
    # The last layer has one output, so its weight is a vector.
    assert found == {("hidden", 0.01), ("vector", 0.0)}


def test_accumulated_batches_are_one_large_batch():
    small = task_of(batch_size=8, accumulate=2)
    assert signal(small) == pytest.approx(by_hand(lambda m: None), rel=1e-5)


def test_accumulation_reads_whole_epochs():
    x, y = line_data()
    seen = []

    class Counted(list):
        def __iter__(self):
            seen.append(1)
            return super().__iter__()

    pieces = Counted((x[i : i + 16], y[i : i + 16]) for i in range(0, 64, 16))
    task = Task.from_module(net, pieces, mse_loss, accumulate=4, **TRAINING)
    seen.clear()
    assert len(signal(task, steps=3)) == 3
    assert len(seen) == 3


def test_mixed_precision_by_autocast():
    kinds = []

    class Noted(nn.Linear):
        def forward(self, x):
            out = super().forward(x)
            kinds.append((out.dtype, self.weight.dtype))
            return out

    def loss(output, target):
        return mse_loss(output.float(), target)

    task = Task.from_module(
        lambda: Noted(4, 1), line_data(), loss, precision="bf16", **TRAINING,
        test=line_data(8, 1),
    )  # fmt: skip
    single = Task.from_module(lambda: nn.Linear(4, 1), line_data(), loss, **TRAINING)
    assert signal(task, final=True) == pytest.approx(signal(single), rel=0.05)
    assert set(kinds) == {(torch.bfloat16, torch.float32)}
    assert signal(task) != signal(single)


def test_half_precision_needs_a_gpu():
    with pytest.raises(TaskError, match='"fp16" needs a CUDA device, not cpu; use "bf16"'):
        signal(task_of(precision="fp16"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_half_precision_on_a_gpu():
    found = signal(task_of(precision="fp16"), device=torch.device("cuda"), steps=60)
    assert found[-1] < found[0]


SETTINGS = {
    "clip_norm": 0.5,
    "accumulate": 2,
    "weight_decay": 0.01,
    "precision": "bf16",
    "groups": decay_groups,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_tasks_with_a_setting_keep_the_contract_and_are_not_stacked(name):
    task = task_of(**{name: SETTINGS[name]})
    with pytest.raises(NotStackableError, match="mixed precision are not supported"):
        footprint(task, torch.device("cpu"))
    check_task(task)


BAD = {
    "clip_norm must be positive, not 0": {"clip_norm": 0},
    "clip_norm must be positive, not nan": {"clip_norm": float("nan")},
    "accumulate must be an integer of at least 1, not 0": {"accumulate": 0},
    "accumulate must be an integer of at least 1, not 1.5": {"accumulate": 1.5},
    "weight_decay must be 0 or more, not -1": {"weight_decay": -1},
    'precision must be "bf16", "fp16" or None, not "int8"': {"precision": "int8"},
    "groups must be a function": {"groups": [{"params": []}]},
    "forward must be a function": {"forward": 3},
    'no setting "clipnorm"; did you mean "clip_norm"?': {"clipnorm": 1.0},
    'no setting "colour"': {"colour": "red"},
    "a metric must be an optsmith.Metric or a function": {"metric": 3},
}


@pytest.mark.parametrize("message", BAD)
def test_what_makes_no_sense_is_said(message):
    with pytest.raises(TaskError) as error:
        task_of(**BAD[message])
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (lambda m: m.parameters(), "a list of dicts"),
        (lambda m: [], "a list of dicts"),
        (lambda m: 3, "a list of dicts"),
        (lambda m: [{"params": m.parameters(), "lr": 0.1}], "cannot set lr"),
    ],
)
def test_groups_that_make_no_sense_are_said(groups, message):
    with pytest.raises(TaskError, match=message):
        signal(task_of(groups=groups))


def test_functions_say_what_was_meant_too():
    def loop(run):
        yield 1.0

    with pytest.raises(
        TaskError, match='from_function has no setting "step"; did you mean "steps"'
    ):
        Task.from_function(loop, step=3)


def test_every_setting_is_shown():
    shown = inspect.signature(Task.from_module).parameters
    assert {"clip_norm", "accumulate", "groups", "steps", "check_every"} <= set(shown)
    assert "accumulate:" in (inspect.getdoc(Task.from_module) or "")
    assert line().from_module is Task.from_module


def test_muon_gets_the_roles_of_a_task_s_model():
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("torch has no Muon")
    for task in (task_of(), task_of(groups=decay_groups)):
        run = Run(parse_recipe("torch:muon+linear"), 0.05, 5, 60)
        found = [value for _, value in train_once(task, run).signal]
        assert found[-1] < 0.5 * found[0]
        assert {g["role"] for g in run.built[0].param_groups} == {"hidden", "vector"}


@pytest.mark.parametrize("search", ["grid", "auto"])
def test_a_recipe_without_a_rule_form_is_evaluated_beside_others(search):
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("torch has no Muon")
    found = optsmith.evaluate(
        Task.from_module(net, line_data(), mse_loss, batch_size=16, **TRAINING),
        ["torch:muon+cosine", "m1", "torch:adam"],
        protocol=PROTOCOL.replace(lr_search=search),
        workers=0,
    )
    assert {row.status.value for row in found.rows} == {"ok"}
    (muon,) = (row for row in found.rows if "muon" in row.recipe)
    # With `auto`, rates are placed by the size of Adam's updates, which Muon's have, too.
    assert (set(PROTOCOL.lrs) == {point.lr for point in muon.grid}) == (search == "grid")
    assert muon.state_bytes > 4
