"""The number of copies per stack depends on the model's size and the device."""

from __future__ import annotations

import logging

import pytest
import torch
from stack_samples import sorting
from torch import nn

from optsmith import TaskError
from optsmith.training import choose_stacking
from optsmith.training.stacked._check import Footprint, footprint
from optsmith.training.stacked._choose import copies_for
from tasks_for_tests import bowl, line

CPU = torch.device("cpu")
MIB = 1 << 20


@pytest.mark.parametrize(
    ("parameters", "activations", "kind", "copies"),
    [
        (62 << 10, 408 << 10, "perceptron", 64),  # 784-20-10, batches of 128
        (MIB // 2, MIB // 2, "perceptron", 64),
        (2 * MIB, 743 << 10, "perceptron", 8),  # 784-640-10
        (2 * MIB, 3 * MIB, "perceptron", 1),
        (MIB, MIB, "convolutions", 8),
        (0, 3 * MIB, "convolutions", 1),
        (MIB // 2, MIB // 2, "tokens", 64),
        (MIB // 2, 2 * MIB, "tokens", 16),
        (MIB // 2, 5 * MIB, "tokens", 1),  # the GPT of benchmarks/tasks
        (MIB // 2, MIB // 2, "other", 64),
        (MIB, MIB // 2, "other", 1),
    ],
)
def test_small_models_make_large_stacks_on_a_cpu(parameters, activations, kind, copies):
    assert copies_for(Footprint(parameters, activations, kind), CPU) == copies


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        (lambda: nn.Sequential(nn.Linear(12, 5), nn.Tanh()), "perceptron"),
        (lambda: nn.Sequential(nn.Linear(12, 5), nn.LayerNorm(5)), "other"),
        (lambda: nn.Sequential(nn.Unflatten(1, (1, 12)), nn.Conv1d(1, 1, 8), nn.Flatten()),
         "convolutions"),
    ],
)  # fmt: skip
def test_kinds_of_models(module, kind):
    assert footprint(sorting(module), CPU).kind == kind


def test_on_a_gpu_stacks_are_as_large_as_memory_allows():
    assert copies_for(Footprint(64 * MIB, 64 * MIB, "other"), torch.device("cuda")) == 64


def test_a_small_model_is_stacked_and_the_record_says_what_a_copy_takes():
    chosen = choose_stacking(line(), CPU)
    assert (chosen.copies, chosen.parameters, chosen.reason) == (64, 4 * 5, "")
    assert chosen.activations > 0


def test_a_large_model_is_trained_plainly_without_being_checked(monkeypatch, caplog):
    def fail(*_):
        raise AssertionError("a large model must not be checked")

    monkeypatch.setattr("optsmith.training.stacked._choose.check_stack", fail)
    wide = sorting(lambda: nn.Sequential(nn.Linear(12, 60_000), nn.Linear(60_000, 5)))
    with caplog.at_level(logging.INFO, "optsmith"):
        chosen = choose_stacking(wide, CPU)
    assert (chosen.copies, chosen.parameters) == (1, 4 * (17 * 60_000 + 60_005))
    assert "one at a time" in caplog.text


def test_two_copies_must_fit(monkeypatch):
    monkeypatch.setattr("optsmith.training.stacked._stacking.MOST_BYTES", 100)
    assert "do not fit in memory" in choose_stacking(line(), CPU).reason


@pytest.mark.parametrize("copies", [2, 5, 500])
def test_the_size_can_be_given(copies):
    assert choose_stacking(line(), CPU, copies).copies == copies


def test_one_copy_asked_for_is_the_plain_loop():
    chosen = choose_stacking(line(), CPU, 1)
    assert (chosen.copies, chosen.reason) == (1, "stacking is disabled")


def test_stacks_that_cannot_be_are_refused_when_they_are_asked_for():
    with pytest.raises(TaskError, match="bowl cannot be stacked: the task has a training loop"):
        choose_stacking(bowl(), CPU, 4)
    with pytest.raises(TaskError, match="at least 1 copy, not 0"):
        choose_stacking(line(), CPU, 0)
