"""The attack task: its images, its ascent, its protocol, and what it refuses."""

from __future__ import annotations

import re
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from optsmith import DataError, Evaluation, Run, Status, TaskError, data, evaluate, search
from optsmith.adversarial import apgd, attack
from optsmith.cli._table import comparison_table
from optsmith.optim import parse_recipe
from optsmith.report import write_report
from optsmith.task import find_task
from optsmith.task._attack import AttackTask
from optsmith.testing import check_task
from optsmith.training import train_once

SHARED = Path(__file__).parents[3] / "shared" / "data"
SEARCH, FINAL = 1, 1_000_001


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        # One directory for all test files, so that the network is trained once.
        patch.setenv("OPTSMITH_CACHE", str(tmp_path_factory.getbasetemp() / "robust"))
        return find_task("attack")


def numbered(count: int, first: int):
    """Images that can be told apart by their only pixel."""
    numbers = torch.arange(first, first + count) / 10_000
    return numbers.view(-1, 1, 1, 1), torch.zeros(count).long()


class Dark(nn.Module):
    def forward(self, images):
        level = images.flatten(1).mean(1, keepdim=True)
        return torch.cat([0.35 - level, level - 0.35], dim=1)


def numbered_task(**settings) -> AttackTask:
    defaults = {"eps": 0.01, "images": 40, "final_images": 100}
    return AttackTask(Dark(), numbered(680, 0), numbered(1000, 5000), **defaults | settings)


def run(recipe="sign(g)", seed=SEARCH, steps=5, lr=0.05, final=False) -> Run:
    return Run(parse_recipe(recipe), lr, seed, steps, final)


def picked(task, seed, final=False) -> list[int]:
    images, _ = task.pick(run(seed=seed, final=final))
    return (images.flatten() * 10_000).round().int().tolist()


def test_the_code_that_the_report_shows_runs():
    """Not an optimizer for `model.parameters()`, which would be the wrong thing to attack with."""
    task = numbered_task(norm="l2")
    code = task.usage.format(rule="'sign(g)'", lr=0.004)
    scope = {"model": task.model, "images": task.final[0][:50], "labels": task.final[1][:50]}
    exec(code, scope)  # noqa: S102 - that it can be run is what is tested
    assert 0 < scope["result"].success_rate <= 1
    assert "adds" in task.applied


def test_the_contract_is_kept(digits):
    check_task(digits)


def test_seeds_that_follow_each_other_share_no_image_and_cover_all():
    task = numbered_task()
    scored = sorted(n for seed in range(1, 11) for n in picked(task, seed))
    assert scored == list(range(280, 680))
    stage = task.preset("paper").protocol.final_stage
    reported = sorted(n for seed in stage.seeds for n in picked(task, seed, final=True))
    assert reported == list(range(5000, 6000))


def test_each_stage_tunes_on_images_of_its_own():
    task = numbered_task()
    protocol = task.preset("quick").protocol
    used = []
    for stage in (protocol.search_stage, protocol.final_stage):
        # The runs that tune are never final, also those of the final evaluation.
        tuned = [picked(task, seed) for seed in stage.lr_seeds]
        assert tuned == [picked(task, seed, final=True) for seed in stage.lr_seeds]
        assert [len(part) for part in tuned] == 2 * [100 if stage.final else 40]
        used += [n for part in tuned for n in part]
    assert sorted(used) == list(range(280))  # each once, and none that scores


def test_few_images_are_divided_in_thirds():
    task = AttackTask(Dark(), numbered(30, 0), numbered(9, 5000), eps=0.1)
    protocol = task.preset("paper").protocol
    search, final = (picked(task, s.lr_seed) for s in (protocol.search_stage, protocol.final_stage))
    assert (search, final) == (list(range(10)), list(range(10, 20)))
    assert picked(task, SEARCH) == list(range(20, 30))
    assert picked(task, FINAL, final=True) == list(range(5000, 5009))


def test_the_digits_are_divided_as_documented(digits):
    parts = (digits.tuning, digits.search, digits.final_tuning, digits.final)
    assert [len(labels) for _, labels in parts] == [149, 150, 149, 449]


def test_the_signal_is_the_share_misclassified_after_each_step(digits):
    """The task, whose optimizer subtracts, climbs as the public function does."""
    for recipe in ("sign(g)", "attack1", "attack3", "drop(m1)", "log(sign(g) - 1)"):
        asked = run(recipe, steps=6)
        signal = [value for _, value in train_once(digits, asked).signal]
        images, labels = digits.pick(asked)
        result = attack(
            digits.model, images, labels, asked.recipe, 0.15, 6, lr=0.05, random_start=True,
            seed=asked.seed,
        )  # fmt: skip
        assert signal[-1] == pytest.approx(result.success_rate_at_end, abs=0.011)
        assert len(signal) == 6


def test_it_is_an_ascent(digits):
    up, down = (train_once(digits, run(text, steps=10)).signal for text in ("sign(g)", "-sign(g)"))
    assert up[-1][1] > up[0][1] > down[-1][1]


def test_torch_s_optimizers_climb_too(digits):
    for name, lr in (("torch:adam", 0.05), ("torch:sgd+linear", 1.0), ("torch:adamw", 0.05)):
        signal = train_once(digits, run(name, steps=10, lr=lr)).signal
        assert signal[-1][1] > 0.25


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_apgd_is_run_as_the_function_runs_it(digits, norm):
    task = AttackTask(
        digits.model, digits.search, digits.final, eps=digits.eps, norm=norm, final_images=150
    )
    asked = run("apgd", seed=FINAL, steps=12, final=True)
    trace = train_once(task, asked)
    result = apgd(task.model, *task.pick(asked), task.eps, 12, norm=norm, seed=FINAL)
    assert trace.signal[-1][1] == pytest.approx(result.success_rate_at_end, abs=1e-6)
    assert trace.metrics["success at any step"] == pytest.approx(result.success_rate, abs=1e-6)
    assert trace.metrics["loss at the end"] == pytest.approx(float(result.losses[-1].mean()))


def test_apgd_is_evaluated_without_tuning(digits):
    table = evaluate(digits, ["apgd", "pgd"], preset="smoke", workers=0)
    rows = {row.recipe: row for row in table.rows}
    assert (rows["apgd"].status, rows["apgd"].lr, rows["apgd"].grid) == (Status.OK, None, ())
    assert rows["apgd"].trained == 2 * 6  # the scoring runs alone
    assert rows["pgd"].lr is not None
    assert rows["apgd"].score > 0.2
    assert Evaluation.from_json(rows["apgd"].to_json()).lr is None


def test_apgd_is_for_attacks_alone():
    assert str(AttackTask.baselines["apgd"]) == "apgd" == str(parse_recipe("apgd"))
    with pytest.raises(TaskError, match="only attack tasks run it"):
        parse_recipe("apgd").build([torch.ones(1, requires_grad=True)], 0.1, 5)
    for text in ("apgd+cosine", "torch:apgd"):
        with pytest.raises(TaskError, match='must be "apgd": it adapts its own step sizes'):
            parse_recipe(text)


def test_the_end_is_measured_at_any_step_too(digits):
    trace = train_once(digits, run(seed=FINAL, lr=10.0, final=True))
    assert trace.metrics["success at any step"] >= trace.signal[-1][1]
    assert trace.metrics["loss at the end"] > 0


def test_bytes_are_images_of_256_levels():
    pixels = torch.arange(30, dtype=torch.uint8).view(-1, 1, 1, 1)
    task = AttackTask(Dark(), (pixels, torch.zeros(30).long()), numbered(10, 0), eps=0.1, images=5)
    images, _ = task.pick(run(seed=1))
    assert images.dtype == torch.float32
    assert (images.flatten() * 255).round().int().tolist() == [25, 26, 27, 28, 29]


def test_the_paper_preset_has_the_paper_s_numbers():
    task = numbered_task()
    preset = task.preset("paper")
    protocol = preset.protocol
    assert protocol.lrs == (0.001, 0.003, 0.006, 0.01, 0.03, 0.06, 0.1, 0.3, 1.0)
    assert (protocol.proxy_steps, protocol.steps, protocol.final_steps) == (20, 20, 100)
    assert (protocol.threshold, preset.budget, preset.options) == (0.2, 128, {})
    assert protocol.score_seeds * 400 == 4800
    assert protocol.final_seeds * 1000 == 10_000
    assert protocol.final_stage.tune_steps == 100
    assert not any(preset.trajectory for preset in task.presets.values())
    assert (task.objective.direction, task.objective.over) == ("maximize", "last")


def test_a_smoke_search_finds_a_rule_and_compares_it_with_apgd(digits, tmp_path):
    compare = [digits.baselines["apgd"]]
    study = search(digits, preset="smoke", storage=tmp_path, workers=0, baselines=compare)
    assert min(study.best().search_score, study.best().held_out_score) > 0.2
    assert [row.recipe for row in study.final.baselines] == ["apgd"]
    table = Console(width=120)
    with table.capture() as printed:
        table.print(comparison_table(study.final))
    assert re.search(r"│ apgd .*│ +none │", printed.get())
    assert "none: apgd has no learning rate" in printed.get()
    page = write_report(study).read_text()
    assert "lr=lr" not in page
    assert '<abbr title="It has no learning rate.">none</abbr>' in page


def test_what_makes_no_sense_is_refused():
    with pytest.raises(TaskError, match="eps, the radius"):
        numbered_task(eps=-1)
    with pytest.raises(TaskError, match="a run needs images"):
        numbered_task(images=0)
    images, labels = numbered(9, 0)
    with pytest.raises(TaskError, match=r"numbers in \[0, 1\]"):
        AttackTask(Dark(), (images + 1, labels), (images, labels), eps=0.1)
    with pytest.raises(TaskError, match="at least 3 images"):
        AttackTask(Dark(), (images[:2], labels[:2]), (images, labels), eps=0.1)


def test_the_task_has_a_model_of_its_own():
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(1), nn.Linear(1, 2))
    task = AttackTask(model, numbered(9, 0), numbered(9, 0), eps=0.1)
    assert not task.model.training
    assert model.training
    assert all(p.requires_grad for p in model.parameters())


def test_a_missing_checkpoint_is_one_clear_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("OPTSMITH_DATA", raising=False)
    monkeypatch.setenv("OPTSMITH_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"Carmon2019Unlabeled.pt was not found: put"):
        find_task("attack-carmon2019", tmp_path)


@pytest.mark.parametrize("name", ["attack-resnet4b", "attack-cifar-wide"])
def test_published_networks_are_attacked_on_cifar(name, monkeypatch):
    if not (SHARED / "robust_cifar10").is_dir():
        pytest.skip(f"the networks are not in {SHARED}")
    rng = np.random.default_rng(0)

    def some(count):
        return rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8), rng.integers(0, 10, count)

    train, test = some(8000), some(10)
    found = types.SimpleNamespace(
        train_images=train[0], train_labels=train[1], test_images=test[0], test_labels=test[1]
    )
    monkeypatch.setattr(data, "load", lambda name, data_dir: found)
    task = find_task(name, SHARED)
    parts = (task.tuning, task.final_tuning, task.search, task.final)
    assert [len(labels) for _, labels in parts] == [800, 2000, 4800, 10]
    stages = (task.preset("paper").protocol.search_stage, task.preset("paper").protocol.final_stage)
    assert [len(task.pick(run(seed=stage.lr_seed))[1]) for stage in stages] == [400, 1000]
    assert len(task.pick(run(seed=SEARCH))[1]) == 400
    assert task.eps in (2 / 255, 8 / 255)
    assert train_once(task, run(seed=FINAL, steps=1, final=True)).signal[0][1] > 0.5
