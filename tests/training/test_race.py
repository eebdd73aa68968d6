"""Successive halving of learning rates: equal results in memory and with checkpoints on disk."""

from __future__ import annotations

import gc
import tempfile
import weakref
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from optsmith import Run, Task, decay_groups
from optsmith.optim import parse_recipe
from optsmith.task import ResumableTraining
from optsmith.training import Stopping, _race
from optsmith.training._plain import PausableRun
from optsmith.training._race import race
from tasks_for_tests import PROTOCOL, close, line_data

LRS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 1e6)
STEPS = 47


class Counting(nn.Module):
    """Has every kind of state: weights, random masks, running statistics, and attributes."""

    alive: ClassVar[weakref.WeakSet] = weakref.WeakSet()

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 6)
        )
        self.head = nn.Linear(6, 1)
        self.register_buffer("last", torch.zeros(()), persistent=False)
        self.calls, self.plain = 0, torch.zeros(1)
        Counting.alive.add(self)

    def forward(self, x):
        self.calls += self.training
        self.plain = self.plain + 0.25
        self.last = self.last * 0.5 + x.mean().detach()
        scale = 1 + 0.01 * self.calls + self.last + 0.1 * self.plain
        return self.head(self.body(x)) * scale


def in_memory(**settings) -> Task:
    return Task.from_module(
        Counting, line_data(), mse_loss, **{"batch_size": 12, "protocol": PROTOCOL} | settings
    )


def loader(batch_size=10, **settings) -> Task:  # 7 batches, the last smaller
    data = TensorDataset(*line_data())
    return Task.from_module(
        Counting,
        DataLoader(data, batch_size=batch_size, shuffle=True, **settings),
        mse_loss,
        protocol=PROTOCOL,
    )


def noisy_loader() -> Task:
    """Return a task whose dataset draws from torch's generator between the draws of the model."""

    class Noisy(TensorDataset):
        def __getitem__(self, i):
            x, y = super().__getitem__(i)
            return x + 0.01 * torch.randn(4), y

    data = DataLoader(Noisy(*line_data()), batch_size=10, shuffle=True)
    return Task.from_module(Counting, data, mse_loss, protocol=PROTOCOL)


def own_loop(**settings) -> Task:
    def loop(run: Run):
        model = Counting()
        optimizer = run.optimizer(model)
        x, y = line_data()
        for _ in range(run.steps):
            rows = torch.randint(64, (12,))
            loss = mse_loss(model(x[rows]), y[rows])
            model.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.detach()

    return Task.from_function(loop, protocol=PROTOCOL)


def validated() -> Task:
    return in_memory(validation=line_data(32, 2), test=line_data(32, 1), metric=close)


def with_settings() -> Task:
    return in_memory(groups=decay_groups, weight_decay=0.1, clip_norm=0.5, accumulate=3)


TASKS = {
    "tensors": in_memory,
    "loader": loader,
    "loader with workers": lambda: loader(5, num_workers=1),  # fewer epochs: each starts a process
    "noisy loader": noisy_loader,
    "own loop": own_loop,
    "validation": validated,
    "settings": with_settings,
}
RECIPES = ["drop(g)", "ld*Adam", "torch:adam", "torch:momentum+cosine"]


def outcome(task, recipe="g", steps=STEPS):
    runs = [Run(parse_recipe(recipe), lr, 3, steps) for lr in LRS]
    traces = race(task, runs, Stopping(task.objective, early=True, halving=True))
    return [(t.signal, t.stopped, t.metrics, t.state_bytes) for t in traces]


@pytest.fixture
def on_disk(monkeypatch):
    def switch(size: int = 0):
        monkeypatch.setattr(_race, "MOST_MEMORY", size)

    return switch


def same(one, other):
    assert [o[1] for o in one] == [o[1] for o in other]
    for (a, *rest), (b, *others) in zip(one, other, strict=True):
        # As text, because NaN differs from itself.
        assert str(a) == str(b)
        assert rest == others


@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        *[("tensors", recipe) for recipe in RECIPES],
        *[(name, "drop(Adam)") for name in TASKS],
    ],
)
def test_paused_runs_on_disk_give_the_same_traces_to_the_bit(name, recipe, on_disk):
    task = TASKS[name]()
    expected = outcome(task, recipe)
    on_disk()
    same(outcome(task, recipe), expected)
    assert any("worse half" in stopped for _, stopped, _, _ in expected)
    assert any(not stopped for _, stopped, _, _ in expected)


def test_muon_is_paused_too(on_disk):
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("torch has no Muon")
    task = in_memory()
    expected = outcome(task, "torch:muon+linear")
    on_disk()
    same(outcome(task, "torch:muon+linear"), expected)


@pytest.mark.parametrize("steps", [1, 9, 10, 20, 40, 41])
def test_lengths_that_meet_a_rung_or_do_not(steps, on_disk):
    task = in_memory()
    expected = outcome(task, steps=steps)
    on_disk()
    same(outcome(task, steps=steps), expected)


@pytest.mark.parametrize("name", ["tensors", "loader", "own loop"])
def test_one_model_is_in_memory_at_a_time(name, on_disk):
    most = []
    task = TASKS[name]()

    class Watched(Stopping):
        def why(self, *args):
            most.append(len(Counting.alive))
            return super().why(*args)

    def models(size):
        gc.collect()
        most.clear()
        before = len(Counting.alive)
        on_disk(size)
        runs = [Run(parse_recipe("g"), lr, 3, STEPS) for lr in LRS[:4]]
        race(task, runs, Watched(task.objective, halving=True))
        return max(most) - before

    assert models(0) == 1
    assert models(1 << 40) == 4


def test_what_counts_as_large_is_the_memory_of_all_rates(monkeypatch):
    kept = []
    set_aside = PausableRun.set_aside

    def noted(self, file):
        kept.append(file)
        set_aside(self, file)

    monkeypatch.setattr(PausableRun, "set_aside", noted)
    task = in_memory()
    outcome(task, "Adam")
    assert not kept
    model = Counting()
    size = 3 * 4 * sum(p.numel() for p in model.parameters())  # with two tensors of state
    monkeypatch.setattr(_race, "MOST_MEMORY", len(LRS) * size)
    outcome(task, "Adam")
    assert not kept
    monkeypatch.setattr(_race, "MOST_MEMORY", len(LRS) * size - 1)
    outcome(task, "Adam")
    assert kept


@pytest.mark.parametrize("fails", [False, True])
def test_no_file_is_left_behind(fails, on_disk, monkeypatch, tmp_path):
    files = []
    make = tempfile.TemporaryFile

    def noted(*args, **kwargs):
        files.append(make(*args, dir=tmp_path, **kwargs))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    steps = []

    def loss(output, target):
        steps.append(1)
        if fails and len(steps) == 4 * 10 + 30:  # after the first rung
            raise RuntimeError("out of memory")
        return mse_loss(output, target)

    on_disk()
    task = Task.from_module(Counting, line_data(), loss, protocol=PROTOCOL, batch_size=16)
    runs = [Run(parse_recipe("g"), lr, 3, STEPS) for lr in LRS[:4]]
    stopping = Stopping(task.objective, halving=True)
    if fails:
        with pytest.raises(RuntimeError, match="out of memory"):
            race(task, runs, stopping)
    else:
        race(task, runs, stopping)
    assert files
    assert all(file.closed for file in files)
    assert not list(tmp_path.iterdir())


def test_torch_s_random_state_is_left_alone(on_disk):
    on_disk()
    before = torch.get_rng_state()
    outcome(loader())
    assert torch.equal(before, torch.get_rng_state())


def test_a_run_says_how_it_is_saved():
    run = Run(parse_recipe("g"), 0.1, 3, STEPS)
    assert isinstance(in_memory().start(run), ResumableTraining)
    training = in_memory().start(run)
    next(training)
    training.close()
    assert list(training) == []
