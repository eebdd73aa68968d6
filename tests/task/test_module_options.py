"""Options of module tasks: refit, prepare, measure_size, check_every."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from optsmith import Rule, Run, Task, TaskError
from optsmith.task import ModuleTask
from optsmith.testing import check_task
from optsmith.training import train_once
from optsmith.training.stacked._check import NotStackableError, check_stack, footprint
from tasks_for_tests import PROTOCOL, close, line, line_data


def run(**changes) -> Run:
    return Run(Rule.parse("g"), **{"lr": 0.05, "seed": 5, "steps": 9, **changes})


def numbered(*bounds: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return examples that are their own index, which shows the examples that were used."""
    numbers = torch.arange(*bounds, dtype=torch.float32)[:, None]
    return numbers, numbers


class Noted(nn.Linear):
    """Records the examples of its forward passes, in training and in evaluation mode."""

    seen: dict[bool, list[list[int]]]

    def __init__(self) -> None:
        super().__init__(1, 1)

    def forward(self, x):
        Noted.seen[self.training].append(x.flatten().int().tolist())
        return super().forward(x)


@pytest.fixture
def task() -> ModuleTask:
    Noted.seen = {True: [], False: []}
    return Task.from_module(
        Noted,
        numbered(0, 8),
        mse_loss,
        validation=numbered(8, 12),
        refit=numbered(0, 12),
        test=numbered(20, 50),
        metric=close,
        batch_size=4,
        measure_size=5,
        check_every=4,
        protocol=PROTOCOL,
    )


def flat(lists: list[list[int]]) -> list[int]:
    return sorted(number for one in lists for number in one)


def test_a_search_trains_without_what_it_holds_out_and_the_end_with_it(task):
    train_once(task, run(steps=2, lr=1e-9))
    assert flat(Noted.seen[True]) == list(range(8))
    assert flat(Noted.seen[False]) == list(range(8, 12))
    Noted.seen = {True: [], False: []}
    train_once(task, run(steps=3, lr=1e-9, final=True))
    assert flat(Noted.seen[True]) == list(range(12))


def test_measures_are_taken_in_pieces(task):
    train_once(task, run(steps=4, lr=1e-9, final=True))
    pieces = [list(range(start, start + 5)) for start in range(20, 50, 5)]
    assert Noted.seen[False] == pieces * 2  # the signal of the last step, and the metrics


def test_the_signal_is_measured_as_often_as_asked(task):
    assert [step for step, _ in train_once(task, run(steps=10, lr=1e-9)).signal] == [4, 8, 10]


def test_other_data_in_the_end_means_one_run_at_a_time(task):
    """A stack would train on the wrong data."""
    with pytest.raises(NotStackableError):
        footprint(task, torch.device("cpu"))


def double(x: torch.Tensor) -> torch.Tensor:
    return x.double().mul(2).float()


def line_on(data, **settings) -> Task:
    defaults = {"test": line_data(32, 1), "batch_size": 16, "protocol": PROTOCOL}
    if "validation" not in settings:
        defaults["objective"] = "training loss"
    return Task.from_module(lambda: nn.Linear(4, 1), data, mse_loss, **defaults | settings)


def signal_and_metrics(task) -> tuple[list[float], dict[str, float]]:
    trace = train_once(task, run(final=True))
    return [value for _, value in trace.signal], dict(trace.metrics)


def test_inputs_are_prepared_batch_by_batch():
    x, y = line_data()
    test = line_data(32, 1)
    ready = line_on((2 * x, y), test=(2 * test[0], test[1]))
    assert signal_and_metrics(line_on((x, y), test=test, prepare=double)) == signal_and_metrics(
        ready
    )
    loaders = ([(x, y)], [(test[0], test[1])])
    loaded = line_on(loaders[0], test=loaders[1], prepare=double)
    whole = line_on((2 * x, y), test=(2 * test[0], test[1]), batch_size=64)
    signal, metrics = signal_and_metrics(loaded)
    assert signal == pytest.approx(signal_and_metrics(whole)[0])  # in another order
    assert metrics == pytest.approx(signal_and_metrics(whole)[1])


def test_prepared_inputs_reach_a_stack_too():
    check_stack(line(prepare=double), torch.device("cpu"))


def test_a_task_with_every_option_keeps_the_contract():
    x, y = line_data()
    check_task(
        line_on(
            (x[:48], y[:48]),
            validation=(x[48:], y[48:]),
            refit=(x, y),
            metric=close,
            prepare=double,
            measure_size=7,
            check_every=3,
        )
    )


BAD = {
    "measure_size must be at least 1, not 0": {"measure_size": 0},
    "check_every must be at least 1, not 0": {"check_every": 0},
    "refit needs validation data": {"refit": line_data()},
}


@pytest.mark.parametrize("message", BAD)
def test_what_makes_no_sense_is_said(message):
    with pytest.raises(TaskError, match=message):
        line(**BAD[message])
