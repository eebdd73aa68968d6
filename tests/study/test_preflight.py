"""What trying a task out before a search finds, and its errors."""

from __future__ import annotations

import warnings
from functools import partial

import pytest
import torch
from preflight_tasks import TEST, TRAINING, G, X, Y, check, module_task, own_loop, square, stepping
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name

import optsmith
from optsmith import Objective, Task, TaskError
from optsmith._errors import TaskFailure
from optsmith.study._preflight import knows_roles, preflight
from tasks_for_tests import PROTOCOL, bowl, line, line_data

# --- what it returns ------------------------------------------------------------------------------


def test_doing_nothing_does_not_beat_an_untrained_model_and_training_does():
    protocol = PROTOCOL.replace(score_seeds=4, threshold=None)
    for task in (bowl(), line(**TRAINING), line()):
        found = preflight(task, protocol, "cpu").untrained
        nothing, trained = (
            optsmith.evaluation.evaluate_recipe(task, G, protocol.replace(lrs=lrs).search_stage)
            for lrs in ((1e-12,), (0.1,))
        )
        every = [point.score for e in (nothing, trained) for point in e.grid]
        assert max(nothing.score, every[0]) == pytest.approx(found, rel=0.25)
        assert max(trained.score, every[1]) < found


def test_the_score_of_an_untrained_model_has_the_objective_s_direction():
    def train(run):
        yield from (-value for value in stepping(square)(run))

    task = Task.from_function(
        train, protocol=PROTOCOL, name="mine", objective=Objective("gain", "maximize", "last")
    )
    assert check(task).untrained < 0


def test_a_preflight_is_repeatable_and_leaves_nothing_behind():
    state = torch.get_rng_state()
    first = check(line())
    assert check(line()) == first
    assert torch.equal(torch.get_rng_state(), state)


def test_small_batches_by_default_and_equal_seeds_are_remarks():
    weights = torch.ones(1, 4)

    def same():
        model = nn.Linear(4, 1, bias=False)
        model.weight.data.copy_(weights)
        return model

    settings = {"module": same, "protocol": PROTOCOL, "name": "mine", **TRAINING}
    found = check(Task.from_module(data=(X, Y + 1), loss=F.mse_loss, **settings))
    assert found.notes[0] == "each batch is the whole training data, 64 examples"
    assert len(found.notes) in (1, 2)  # the order of the sum may matter to the last digit

    def fixed(run):
        return stepping(lambda w: square(w - w.detach() + 1))(run)

    assert check(own_loop(lambda run: (yield from fixed(run)))).notes == (
        "all seeds give the same signal: draw the initial weights and the order of the data with"
        " torch's generator or run.seed, or runs with other seeds show nothing new",
    )


def test_small_differences_are_a_remark():
    count = iter(range(1000))

    def noisy(run):
        yield from (value * (1 + 1e-7 * next(count)) for value in stepping(square)(run))

    (note,) = check(own_loop(noisy)).notes
    assert note.startswith("equal runs differ slightly (")


# --- errors ---------------------------------------------------------------------------------------


def broken(run):
    yield from stepping(lambda w: square(w) + torch.zeros(2) @ torch.zeros(3))(run)


def broken_metric(out, y):
    return {}["no such key"]


def test_an_exception_has_its_traceback_and_its_cause():
    with pytest.raises(TaskFailure, match=r"^the task mine does not run: RuntimeError: ") as caught:
        check(own_loop(broken))
    failure = caught.value
    assert str(failure).endswith("(in a run of 2 steps)")
    assert isinstance(failure.__cause__, RuntimeError)
    lines = failure.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "test_preflight.py" in lines[1]
    assert lines[-1].startswith("RuntimeError: ")
    assert "optsmith/" not in failure.traceback


def test_an_error_in_a_metric_is_found_before_the_search():
    task = module_task(test=TEST, metric=broken_metric)
    with pytest.raises(TaskFailure, match="KeyError: 'no such key'") as caught:
        check(task)
    assert 'return {}["no such key"]' in caught.value.traceback


def test_metrics_are_tried_out_on_a_few_examples():
    sizes = []

    def metric(out, y):
        sizes.append(len(y))
        return 0.0

    check(module_task(test=line_data(500, 1), metric=metric))
    assert sizes
    assert set(sizes) == {64}
    with pytest.raises(TaskError, match="the test data of the task mine is empty"):
        check(module_task(test=[]))


def test_a_lack_of_memory_is_not_called_a_bug():
    def train(run):
        raise torch.OutOfMemoryError("CUDA out of memory")
        yield

    with pytest.raises(TaskError, match="does not fit into the memory of cpu: OutOfMemory") as e:
        check(own_loop(train))
    assert not isinstance(e.value, TaskFailure)


def test_other_warnings_are_issued_as_usual():
    def train(run):
        warnings.warn("mine", DeprecationWarning, stacklevel=1)
        yield from stepping(square)(run)

    with pytest.warns(DeprecationWarning, match="mine"):
        check(own_loop(train))


def test_a_task_that_passes_bare_parameters_is_searched_without_roles(tmp_path):
    def loop(run, whole):
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        optimizer = run.optimizer(model if whole else model.parameters())
        for _ in range(run.steps):
            optimizer.zero_grad()
            loss = model(torch.ones(2, 4)).square().mean()
            loss.backward()
            optimizer.step()
            yield loss.item()

    for whole in (True, False):
        task = Task.from_function(partial(loop, whole=whole), steps=20, name="mine")
        protocol = task.preset("smoke").protocol
        assert knows_roles(task, protocol, "cpu") == whole
