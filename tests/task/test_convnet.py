"""The ConvNet task, on made-up images in the form of CIFAR-10's, and on the real ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from optsmith import RuleOptimizer, Run, Status, TaskError, data, spaces, tasks
from optsmith.evaluation import evaluate_recipe
from optsmith.optim import parse_recipe
from optsmith.task import ModuleTask, Objective, _convnet, find_task
from optsmith.task._convnet import MEAN, convnet, normalise, task_of
from optsmith.testing import check_task
from optsmith.training import choose_stacking, train_once


def photographs(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise whose brightness in one part of the image is the class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=generator)
    images = torch.randint(0, 200, (count, 3, 32, 32), generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[:, 3 * label : 3 * label + 3] += 55
    return images.to(torch.uint8), labels


@pytest.fixture(scope="module")
def task() -> ModuleTask:
    return task_of(photographs(500), photographs(150, 1), validation=100, batch_size=25)


def run(recipe: str = "torch:momentum", **changes) -> Run:
    return Run(parse_recipe(recipe), **{"lr": 0.01, "seed": 5, "steps": 8, **changes})


def test_it_keeps_the_contract_of_tasks(task):
    check_task(task)


def test_values_and_gradients_are_those_of_the_authors_network():
    """Their order is ReLU, then pooling; ours is the reverse, which is cheaper."""
    block = [nn.ReLU(), nn.MaxPool2d(2), nn.BatchNorm2d(32)]
    theirs = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), *block, nn.Conv2d(32, 32, 3, padding=1), *block[:2],
        nn.BatchNorm2d(32), nn.Flatten(), nn.Linear(2048, 1024), nn.ReLU(), nn.Linear(1024, 10),
    ).to(memory_format=torch.channels_last)  # fmt: skip
    ours = convnet()
    for parameter, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        other.data.copy_(parameter.data)
    images, labels = photographs(20)
    for network in (ours, theirs):
        cross_entropy(network(normalise(images)), labels).backward()
    for parameter, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(parameter.grad, other.grad)
    assert torch.equal(ours(normalise(images)), theirs(normalise(images)))


def test_images_are_normalised_and_left_alone():
    images = photographs(50)[0]
    before = images.clone()
    ready = normalise(images)
    mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in (MEAN, _convnet.DEVIATION))
    torch.testing.assert_close(ready, (images / 255 - mean) / deviation, rtol=1e-4, atol=1e-5)
    assert ready.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(images, before)
    floats = images.float().to(memory_format=torch.channels_last)
    torch.testing.assert_close(normalise(floats), ready)
    assert torch.equal(floats, images.float())


def test_the_split_is_fixed_disjoint_and_whole():
    images, labels = photographs(400)
    images[:, 0, 0, 0], images[:, 0, 0, 1] = torch.arange(400) % 200, torch.arange(400) // 200
    one, two = (task_of((images, labels), photographs(10), validation=150) for _ in range(2))

    def numbers(part) -> list[int]:
        corner = part.inputs[:, 0, 0, :2].int()
        return (corner[:, 0] + 200 * corner[:, 1]).tolist()

    train, held, whole = numbers(one.data.held), numbers(one.validation), numbers(one.data.whole)
    assert (len(train), len(held)) == (250, 150)
    assert train + held == whole
    assert sorted(whole) == list(range(400))
    assert whole != sorted(whole)
    assert numbers(two.data.whole) == whole
    assert torch.equal(one.data.whole.targets, labels[torch.tensor(whole)])
    # One copy of the images in memory, which workers map from one file.
    storages = {b.inputs.untyped_storage().data_ptr() for b in (one.data.held, one.data.whole)}
    assert storages == {one.validation.inputs.untyped_storage().data_ptr()}


def test_it_learns_what_the_images_show(task):
    search = train_once(task, run(steps=40)).signal
    assert [step for step, _ in search] == [40]
    assert search[-1][1] > 0.8
    final = train_once(task, run(steps=40, final=True))
    assert final.metrics["test accuracy"] == final.signal[-1][1] > 0.8


def test_the_layout_in_memory_changes_the_time_alone(task, monkeypatch):
    laid = train_once(task, run("drop(cd*m1)", final=True)).metrics
    monkeypatch.setattr(_convnet, "LAYOUT", torch.contiguous_format)
    plain = train_once(task, run("drop(cd*m1)", final=True)).metrics
    assert plain["test loss"] == pytest.approx(laid["test loss"], rel=1e-3)


@pytest.mark.parametrize("rule", ["sign(m1)", "drop(g)", "m1*(rd + abs(g))*exp(cd)"])
def test_optimizers_treat_every_layout_alike(rule):
    """What happens to a weight must not depend on where in memory it is."""
    start = torch.randn(32, 32, 3, 3, generator=torch.Generator().manual_seed(0))
    ends = []
    for layout in (torch.contiguous_format, torch.channels_last):
        weight = nn.Parameter(start.clone().to(memory_format=layout))
        optimizer = RuleOptimizer([weight], rule, lr=0.1, total_steps=10, seed=3)
        for step in range(5):
            generator = torch.Generator().manual_seed(step)
            gradient = torch.randn(start.shape, generator=generator)
            weight.grad = gradient.to(memory_format=layout)
            optimizer.step()
        ends.append(weight.detach())
    torch.testing.assert_close(*ends)


def test_runs_are_trained_one_at_a_time(task):
    chosen = choose_stacking(task, torch.device("cpu"))
    assert chosen.copies == 1
    assert "different in final runs" in chosen.reason


def test_the_paper_preset_has_the_paper_s_numbers(task):
    assert task.objective == Objective("accuracy", "maximize", "last", "%")
    preset = task.preset("paper")
    protocol = preset.protocol
    assert protocol.lrs == (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    assert _convnet.BATCH == 100
    epoch, whole = 45_000 // 100, 50_000 // 100
    assert (protocol.proxy_steps, protocol.steps) == (epoch, 5 * epoch)
    assert (protocol.final_steps, protocol.final_seeds) == (5 * whole, 4)
    assert _convnet.VALIDATION == 50_000 // 10
    assert _convnet.MEAN == (0.4914, 0.4822, 0.4465)
    assert _convnet.DEVIATION == (0.2023, 0.1994, 0.2010)
    assert (protocol.threshold, protocol.early_stop) == (0.2, False)
    assert (preset.budget, preset.options, preset.dedupe, preset.trajectory) == (
        128, {"count_all": True}, "equal", False,
    )  # fmt: skip
    assert all(spaces[p.space].name == "convnet" for p in task.presets.values())


@pytest.mark.parametrize("recipe", ["torch:nesterov", "conv1", "powersign-cd"])
def test_the_smoke_preset_runs(task, recipe):
    protocol = task.preset("smoke").protocol
    parsed = parse_recipe(recipe)
    for stage in (protocol.search_stage, protocol.final_stage):
        evaluation = evaluate_recipe(task, parsed, stage)
        assert evaluation.status is Status.OK, evaluation.error
        assert set(evaluation.metrics) == ({"test loss", "test accuracy"} if stage.final else set())


def test_quick_finds_a_learning_rate_by_itself(task):
    stage = task.preset("quick").protocol.replace(proxy_steps=4, steps=8).search_stage
    evaluation = evaluate_recipe(task, parse_recipe("m1"), stage)
    assert evaluation.status is Status.OK, evaluation.error
    assert len(evaluation.scores) == 2


BAD = {
    "images must be bytes": lambda x, y: task_of((x.float(), y), (x, y)),
    r"\(n, 3, 32, 32\)": lambda x, y: task_of((x, y), (x[:, :1], y)),
    "from 0 to 9": lambda x, y: task_of((x, y + 1), (x, y)),
    "too few: 5000 are held out": lambda x, y: task_of((x, y), (x, y)),
    "inputs but": lambda x, y: task_of((x, y), (x, y[:-1]), validation=50),
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_not_such_images_is_said(message):
    with pytest.raises(TaskError, match=message):
        BAD[message](*photographs(200))


def test_it_is_found_by_name(monkeypatch, tmp_path):
    asked = []

    def load(name, data_dir):
        asked.append(data_dir)
        (x, y), (u, v) = photographs(300), photographs(60, 1)
        return data.Cifar10(x.numpy(), y.byte().numpy(), u.numpy(), v.byte().numpy())

    monkeypatch.setattr(data, "load", load)
    assert tasks["convnet"].description
    with pytest.raises(TaskError, match="300 images are too few: 5000 are held out"):
        find_task("convnet", tmp_path)
    assert asked == [tmp_path]


@pytest.mark.slow
def test_the_real_images_are_learnt():
    if data.where("cifar10") is None:
        pytest.skip("cifar10 is not on this machine: optsmith data fetch cifar10")
    task = find_task("convnet")
    assert len(task.data.held.inputs) == 45_000
    assert len(task.data.whole.inputs) == 50_000
    trace = train_once(task, run(lr=0.03, steps=60))
    assert trace.signal[-1][1] > 0.35
