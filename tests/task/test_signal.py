"""What a run is scored by: objectives of module tasks, and when and where they are measured."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from optsmith import Metric, Objective, Protocol, Rule, Run, Task, TaskError
from optsmith.task import UNTRAINED, presets_for
from optsmith.task._signal import checkpoints
from optsmith.training import Stopping, train_once
from tasks_for_tests import PROTOCOL, bowl, close, line, line_data

HELD = {"validation": line_data(32, 2)}
BY_SHARE = Metric("close", close, "%")

OBJECTIVES = {
    "default": (HELD, Objective("validation loss", over="tail", report_name="test loss")),
    "metric": (
        HELD | {"metric": BY_SHARE},
        Objective("validation close", "maximize", "tail", "%", "test close"),
    ),
    "loss beside a metric": (
        HELD | {"metric": BY_SHARE, "objective": "validation loss"},
        Objective("validation loss", over="tail", report_name="test loss"),
    ),
    "metric by name": (
        HELD | {"metric": BY_SHARE, "objective": "validation close"},
        Objective("validation close", "maximize", "tail", "%", "test close"),
    ),
    "training": (HELD | {"objective": "training loss"}, Objective()),
    "own": (
        HELD | {"objective": Objective("validation loss", over="last")},
        Objective("validation loss", over="last", report_name="test loss"),
    ),
    "own name": (
        HELD | {"metric": close, "objective": Objective("close", "maximize", "mean")},
        Objective("close", "maximize", "mean"),
    ),
}


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_the_objective_of_a_module_task(kind):
    settings, expected = OBJECTIVES[kind]
    task = line(**settings)
    assert task.objective == expected
    assert (task.measured is None) == (expected.name == "training loss")
    # What final runs report as the objective is not reported once more as a metric.
    assert ("test loss" in task.metrics) == (expected.report_name != "test loss")


BAD = {
    'not "validation los"; did you mean "validation loss"': {"objective": "validation los"},
    'one of "training loss", "validation loss", not "accuracy"': {"objective": "accuracy"},
    'the direction of "validation loss" is "minimize"': {
        "objective": Objective("validation loss", "maximize")
    },
}


@pytest.mark.parametrize("message", BAD)
def test_objectives_that_make_no_sense_are_refused(message):
    with pytest.raises(TaskError, match=message):
        line(**BAD[message])


def test_the_signal_is_the_loss_on_the_held_out_data():
    """The reference loop is written out here."""
    task = line(**HELD, batch_size=64)
    run = Run(Rule.parse("g"), 0.1, 5, 12)
    torch.manual_seed(5)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = line_data()
    expected = []
    for _ in range(12):
        optimizer.zero_grad()
        mse_loss(model(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            expected.append(float(mse_loss(model(HELD["validation"][0]), HELD["validation"][1])))
    signal = train_once(task, run).signal
    assert [value for _, value in signal] == pytest.approx(expected, rel=1e-5)
    assert task.objective.score(signal) == pytest.approx(sum(expected[-2:]) / 2, rel=1e-5)


@pytest.mark.parametrize("steps", [1, 2, 9, 10, 11, 12, 30, 49, 50, 51, 100, 999, 1000, 12345])
def test_a_run_is_measured_often_enough(steps):
    found = sorted(checkpoints(steps, None))
    tail = [step for step in found if step > 0.9 * steps]
    assert len(tail) == min(5, steps - steps * 9 // 10)
    assert found[-1] == steps
    assert found[0] >= 1
    assert len(found) <= 15
    if steps >= 50:
        assert len(found) == 15
        for rung in (0.25, 0.5):  # just before learning rates are halved
            assert any(rung * steps <= step < rung * steps + 1 for step in found)


def test_the_score_over_the_tail():
    tail = Objective(over="tail")
    signal = [(step, float(step)) for step in (10, 50, 90, 92, 96, 100)]
    assert tail.score(signal) == 96  # step 90 is not in the last tenth
    assert tail.score(signal[:2]) == 50  # the beginning of a run ends at its last measured step
    assert tail.score(signal[:1]) == 10
    assert Objective(over="mean").score(signal) == pytest.approx(73)
    assert Objective(over="last").score(signal) == 100


def sizes_of(task, **changes) -> set[int]:
    """Return the numbers of examples of the measurements of a run."""
    sizes = []

    class Counted(nn.Linear):
        def forward(self, x):
            if not self.training:
                sizes.append(len(x))
            return super().forward(x)

    task.module = lambda: Counted(4, 1)
    train_once(task, Run(Rule.parse("g"), **{"lr": 0.01, "seed": 0, "steps": 20} | changes))
    return set(sizes)


def test_short_runs_are_measured_on_a_sample_and_final_runs_on_everything():
    held = {"validation": line_data(3000, 2), "test": line_data(4000, 3)}
    assert sizes_of(line(**held)) == {1024}
    assert sizes_of(line(**held, batch_size=64), steps=400) == {400 * 64 // 15}
    assert sizes_of(line(**held, batch_size=64), steps=900) == {3000}
    assert sizes_of(line(**held, check_every=20, batch_size=64)) == {20 * 64}
    assert sizes_of(line(**held), final=True) == {4000}


def test_a_sample_is_random_and_always_the_same():
    x, y = torch.arange(3000.0)[:, None].expand(-1, 4), torch.zeros(3000, 1)
    loader = DataLoader(TensorDataset(x, y), batch_size=100)
    for held in ((x, y), loader):
        source = line(validation=held).validation
        seen = [torch.cat([b[0] for b in source.once(torch.device("cpu"), 1024)]) for _ in "ab"]
        assert torch.equal(*seen)
        assert len(seen[0]) == len(seen[0].unique(dim=0)) == 1024
        assert seen[0].mean() == pytest.approx(1500, abs=100)


def test_data_that_cannot_be_sampled_is_read_completely():
    held = [line_data(700, seed) for seed in range(3)]
    assert sizes_of(line(validation=held)) == {700}


# --- thresholds and stopping ---------------------------------------------------------------------


def test_thresholds_are_relative_outside_the_paper_preset():
    presets = presets_for(1000)
    assert [presets[n].protocol.threshold for n in ("paper", "quick", "smoke")] == [
        10.0,
        UNTRAINED,
        UNTRAINED,
    ]
    assert Task.from_function(bowl().function, steps=10).preset("paper").protocol.threshold == 10
    accuracy = Objective("accuracy", "maximize", "last")
    task = Task.from_function(bowl().function, steps=10, objective=accuracy)
    assert task.preset("paper").protocol.threshold == 0.2


def test_a_relative_threshold_is_resolved_once_it_is_measured():
    protocol = PROTOCOL.replace(threshold=UNTRAINED)
    assert protocol.search_stage.threshold is None
    assert protocol.resolved(2.5).search_stage.threshold == 2.5
    assert protocol.resolved(2.5).resolved(7.0).threshold == 2.5
    fixed = PROTOCOL.replace(threshold=3.0)
    assert fixed.resolved(2.5) is fixed
    none = PROTOCOL.replace(threshold=None)
    assert none.resolved(2.5).threshold is None
    assert Protocol(proxy_steps=1, steps=1, final_steps=1).threshold == UNTRAINED
    with pytest.raises(TaskError, match='a number, "untrained" or None, not "untraned"'):
        PROTOCOL.replace(threshold="untraned")


def stopped(objective, values, threshold=2.0, steps=100):
    signal = [(step, value) for step, value in zip(range(10, 101, 10), values, strict=False)]
    return Stopping(objective, True, threshold).why(signal, steps)


def test_runs_scored_over_the_tail_have_half_of_the_run_to_beat_the_threshold():
    loss = Objective("validation loss", over="tail")
    assert stopped(loss, [3, 3, 3, 3]) == ""
    assert stopped(loss, [3, 3, 3, 3, 3]) == "not below 2 after 50% of the run"
    assert stopped(loss, [3, 1, 3, 3, 3]) == ""
    assert stopped(loss, [3, 4, 5, 6, 7], threshold=None) == ""
    share = Objective("validation accuracy", "maximize", "tail")
    assert stopped(share, [0.1] * 4, 0.1) == ""
    assert stopped(share, [0.1] * 5, 0.1) == "not above 0.1 after 50% of the run"
    last = Objective("success rate", "maximize", "last")
    assert stopped(last, [0.1], 0.2) == "not above 0.2 after 10% of the run"


# --- functions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("over", "score"), [("mean", 10.5), ("tail", 19.5), ("last", 20.0)])
def test_a_function_is_scored_as_its_objective_says(over, score):
    def loop(run):
        run.optimizer([torch.ones(1, requires_grad=True)])
        for step in range(run.steps):
            yield step + 1.0

    task = Task.from_function(loop, steps=20, objective=Objective("length", over=over))
    signal = train_once(task, Run(Rule.parse("g"), 0.1, 0, 20)).signal
    assert task.objective.score(signal) == score


def test_an_optimizer_is_made_from_a_model_or_its_parameters():
    def loop(run, of):
        model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).to(run.device)
        optimizer = run.optimizer(of(model))
        x, y = line_data()
        for _ in range(run.steps):
            optimizer.zero_grad()
            loss = mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            yield loss.detach()

    def by_model(run):
        return (yield from loop(run, lambda model: model))

    def by_parameters(run):
        return (yield from loop(run, lambda model: model.parameters()))

    for rule in ("g", "Adam", "sign(m1)", "drop(g)"):
        one, other = (
            train_once(Task.from_function(f, steps=9), Run(Rule.parse(rule), 0.1, 4, 9)).signal
            for f in (by_model, by_parameters)
        )
        assert one == other
        assert one[-1] != one[0]


@pytest.mark.parametrize("name", ["from_module", "from_function"])
def test_help_shows_every_setting_with_its_type(name):
    made = getattr(Task, name)
    signature = inspect.signature(made)
    text = inspect.getdoc(made)
    for setting, parameter in signature.parameters.items():
        assert parameter.annotation is not inspect.Parameter.empty
        assert f"    {setting}: " in text
    assert "Task" in str(signature.return_annotation)
