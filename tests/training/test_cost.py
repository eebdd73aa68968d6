"""Time per step, measured with a fake clock, and peak memory."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from optsmith import Evaluation, Rule, Run, Task
from optsmith.evaluation import evaluate_recipe
from optsmith.training import _cost
from optsmith.training._cost import ms_per_step, peak_memory
from tasks_for_tests import PROTOCOL, bowl

CPU = torch.device("cpu")


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock by one that the task advances."""
    now = [0.0]
    monkeypatch.setattr(_cost.time, "perf_counter", lambda: now[0])
    return now


def timed(clock, step, measuring, every):
    """Return a task with given durations of a step and of a measurement every `every` steps."""

    def train(run):
        clock[0] += 5.0  # building the model
        for t in range(1, run.steps + 1):
            clock[0] += step
            if t % every == 0 or t == run.steps:
                clock[0] += measuring
                yield 1.0
            else:
                yield None

    return Task.from_function(train, protocol=PROTOCOL, name="timed")


@pytest.mark.parametrize(
    ("every", "expected"),
    [(100, 2.0), (3, 2.0), (1, 9.0)],  # if every step is measured, the measurement counts
)
def test_measurements_are_no_part_of_a_step(clock, every, expected):
    task = timed(clock, 0.002, 0.007, every)
    assert ms_per_step(task, Run(Rule.parse("g"), 0.1, 0, 20)) == pytest.approx(expected)


def test_a_run_of_one_step_has_a_time(clock):
    task = timed(clock, 0.002, 0.0, 1)
    assert ms_per_step(task, Run(Rule.parse("g"), 0.1, 0, 1)) > 0


def test_records_say_how_much_memory_was_taken():
    before = peak_memory(CPU)
    held = torch.ones(8_000_000, dtype=torch.float64)
    record = evaluate_recipe(bowl(), Rule.parse("g"), PROTOCOL.search_stage)
    assert record.peak_bytes >= before
    assert record.peak_bytes > held.nbytes
    assert Evaluation.from_json(record.to_json()).peak_bytes == record.peak_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is inherited on Linux")
def test_the_peak_of_a_process_is_its_own():
    """A small process started by a large one must not report the large peak."""
    small = (
        "import torch; from optsmith.training import peak_memory;"
        "print(peak_memory(torch.device('cpu')))"
    )
    # With exec both have the same process id, and the kernel keeps the peak of getrusage.
    large = (
        "import os, sys; held = bytearray(1 << 30); held[::4096] = b'1' * (1 << 18);"
        f"os.execv(sys.executable, [sys.executable, '-c', {small!r}])"
    )
    done = subprocess.run([sys.executable, "-c", large], capture_output=True, text=True, check=True)
    assert 0 < float(done.stdout) < 1 << 30
