"""Tasks made from a module and from a function."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from optsmith import Objective, Protocol, Rule, Run, Task, TaskError
from optsmith.task import presets_for
from optsmith.training import train_once
from tasks_for_tests import PROTOCOL, bowl, close, line, line_data


def run(**changes) -> Run:
    return Run(Rule.parse("g"), **{"lr": 0.05, "seed": 5, "steps": 9, **changes})


def losses(task, **changes) -> list[float]:
    return [value for _, value in train_once(task, run(**changes)).signal]


def test_a_module_trains_as_a_plain_loop_does():
    """The reference loop is written out here."""
    x, y = line_data()
    torch.manual_seed(5)
    model = nn.Linear(4, 1)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(5))
    second = torch.randperm(64, generator=(g := torch.Generator().manual_seed(5)))
    second = torch.randperm(64, generator=g)
    third = torch.randperm(64, generator=g)
    rows = torch.cat([order, second, third]).view(-1, 16)[:9]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    expected = []
    for batch in rows:
        optimizer.zero_grad()
        loss = mse_loss(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert losses(line()) == pytest.approx(expected, rel=1e-6)


def test_final_runs_measure_on_the_test_data_and_others_do_not():
    task = line(metric=close)
    assert train_once(task, run()).metrics == {}
    metrics = train_once(task, run(steps=60, lr=0.2, final=True)).metrics
    assert set(metrics) == {"test loss", "test close"}
    assert metrics["test close"] > 0.9


def test_a_mean_over_examples_does_not_depend_on_the_batches_it_is_taken_in():
    task = line(test=DataLoader(TensorDataset(*line_data(32, 1)), batch_size=5))
    whole, parts = (train_once(t, run(final=True)).metrics["test loss"] for t in (line(), task))
    assert parts == pytest.approx(whole, rel=1e-5)


def test_validation_data_is_the_signal_of_a_search_and_test_data_that_of_the_end():
    validation = line_data(32, 2)
    task = line(metric=close, validation=validation)
    assert task.objective == Objective(
        "validation close", "maximize", "tail", report_name="test close"
    )
    search = train_once(task, run(steps=40)).signal
    final = train_once(task, run(steps=40, final=True)).signal
    assert search[-1][1] != final[-1][1] or search != final
    swapped = line(metric=close, validation=line_data(32, 1), test=validation)
    assert train_once(swapped, run(steps=40)).signal == final


def test_a_module_given_whole_is_where_every_run_starts():
    start = nn.Linear(4, 1)
    before = start.weight.detach().clone()
    task = Task.from_module(start, line_data(), mse_loss, protocol=PROTOCOL, batch_size=64)
    one, two = losses(task, seed=1), losses(task, seed=2)
    assert one[0] == pytest.approx(two[0])  # the whole data is one batch
    assert torch.equal(before, start.weight)


def test_a_loader_is_begun_anew_when_it_ends():
    loader = DataLoader(TensorDataset(*line_data()), batch_size=32, shuffle=True)
    task = line()
    task = Task.from_module(lambda: nn.Linear(4, 1), loader, mse_loss, protocol=PROTOCOL)
    assert len(losses(task)) == 9
    assert losses(task) == losses(task)


def test_dictionaries_of_inputs_reach_the_model_whole():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 1)

        def forward(self, batch):
            return self.linear(batch["x"]) + batch["shift"]

    x, y = line_data()
    data = [({"x": x, "shift": torch.ones(64, 1)}, y)]
    assert (
        len(
            losses(
                Task.from_module(Sum, data, mse_loss, objective="training loss", protocol=PROTOCOL)
            )
        )
        == 9
    )


BAD = {
    "inputs but": lambda: line_with((torch.ones(3, 4), torch.ones(2, 1))),
    "data is empty": lambda: line_with((torch.ones(0, 4), torch.ones(0, 1))),
    'not "3"': lambda: line(objective=3),
    "read only once": lambda: line_with(iter([])),
    "pair of tensors": lambda: line_with(3),
    "batch_size must be": lambda: line(batch_size=0),
    "a function that returns one": lambda: Task.from_module(3, line_data(), mse_loss, steps=5),
    "Task.from_module: missing a required argument: 'loss'": lambda: Task.from_module(3, 4),
    "give exactly one of": lambda: line(steps=10),
    "generator function": lambda: Task.from_function(lambda run: None, steps=3),
    "must be in increasing order": lambda: PROTOCOL.replace(lrs=(1, 0.1)),
    "must be positive and finite": lambda: PROTOCOL.replace(lrs=(0,)),
    "steps must be": lambda: Protocol(proxy_steps=1, steps=0, final_steps=1),
    "tune_steps must be": lambda: PROTOCOL.replace(tune_steps=0),
    "must be at most 999998": lambda: PROTOCOL.replace(score_seeds=10**6),
    "has no preset": lambda: line().preset("slow"),
    '"minimize" or "maximize"': lambda: Objective(direction="up"),
    'over must be "mean", "tail" or "last"': lambda: Objective(over="best"),
}


def line_with(data):
    return Task.from_module(lambda: nn.Linear(4, 1), data, mse_loss, protocol=PROTOCOL)


@pytest.mark.parametrize("message", BAD)
def test_what_makes_no_sense_is_said(message):
    with pytest.raises(TaskError, match=message):
        BAD[message]()


@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_function_that_miscounts_its_steps_is_found_out(wrong):
    def loop(run):
        w = torch.ones(1, requires_grad=True)
        run.optimizer([w])
        for _ in range(run.steps + wrong):
            yield 1.0

    with pytest.raises(TaskError, match="steps"):
        train_once(Task.from_function(loop, steps=100), run())


def test_seeds_of_search_and_end_are_disjoint():
    for preset in presets_for(1000).values():
        search, final = preset.protocol.search_stage, preset.protocol.final_stage
        every = [*search.lr_seeds, *search.seeds, *final.lr_seeds, *final.seeds]
        assert len(set(every)) == len(every)
        assert final.final
        assert not search.final


@pytest.mark.parametrize(("steps", "proxy"), [(50, 50), (300, 100), (1000, 100), (5000, 500)])
def test_a_proxy_is_a_tenth_but_not_too_short_to_say_something(steps, proxy):
    for name in ("paper", "quick"):
        protocol = presets_for(steps)[name].protocol
        assert (protocol.proxy_steps, protocol.steps, protocol.final_steps) == (proxy, proxy, steps)


def test_a_function_names_its_task():
    task = bowl(name=None)
    assert task.name == "quadratic"
    assert task.description == "Minimizes |w|^2 / 2 from a random start."
