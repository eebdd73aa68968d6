"""Mistakes in a user's file, as the commands report them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FILE = """
import torch
from torch import nn
from optsmith import Protocol, Task

PROTOCOL = Protocol(
    lrs=(0.01, 0.1), proxy_steps=6, steps=8, final_steps=10, score_seeds=2, final_seeds=2
)


def train(run, skip=(), error=lambda run, step: None):
    model = nn.Linear(3, 1)
    optimizer = run.optimizer(model) if "optimizer" not in skip else None
    for step in range(run.steps):
        loss = model(torch.randn(16, 3)).square().mean()
        error(run, step)
        if "step" not in skip:
            model.zero_grad()
            loss.backward()
            optimizer.step()
        yield loss.detach()


def no_optimizer(run):
    yield from train(run, ("optimizer", "step"))


def no_step(run):
    yield from train(run, ("step",))


def typo(run):
    def error(run, step):
        model.wieght

    model = nn.Linear(3, 1)
    yield from train(run, error=error)


def only_rules(run):
    def error(run, step):
        if str(run.recipe) != "g" and step == 3:
            raise ValueError("cannot train with\\n" + type(run.recipe).__name__)

    yield from train(run, error=error)


def task(function):
    return Task.from_function(function, protocol=PROTOCOL)


no_optimizer, no_step, typo, only_rules = map(task, (no_optimizer, no_step, typo, only_rules))

x = torch.randn(64, 3)
broadcast = Task.from_module(
    lambda: nn.Linear(3, 1), (x, x.sum(1)), nn.functional.mse_loss, batch_size=16,
    protocol=PROTOCOL, name="broadcast",
)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "mine.py").write_text(FILE)
    return folder


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "optsmith", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no_optimizer", "the task no_optimizer never calls run.optimizer: "),
        ("no_step", "the task no_step never steps the optimizer from run.optimizer: "),
        ("broadcast", "the targets of the task broadcast broadcast against the outputs: shapes"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(folder, name, sentence):
    code, out, errors = run(folder, "search", f"mine.py:{name}", "--workers", "0")
    (line,) = errors.splitlines()
    assert (code, out) == (2, "")
    assert line.startswith(f"optsmith: {sentence}")
    assert not (folder / "optsmith-studies").exists()


def test_evaluate_finds_mistakes_too(folder):
    code, out, errors = run(folder, "evaluate", "mine.py:no_step", "m1", "--workers", "0")
    assert (code, out) == (2, "")
    assert errors.startswith("optsmith: the task no_step never steps the optimizer")


def test_an_error_of_the_task_has_its_traceback_and_exit_code_1(folder):
    code, out, errors = run(folder, "search", "mine.py:typo", "--workers", "0")
    assert (code, out) == (1, "")
    first, empty, title, where, *_, last = errors.splitlines()
    what = "AttributeError: 'Linear' object has no attribute 'wieght'"
    assert first == f"optsmith: the task typo does not run: {what} (in a run of 2 steps)"
    assert (empty, title) == ("", "Traceback (most recent call last):")
    assert "mine.py" in where
    assert last.startswith("AttributeError: ")
    assert "model.wieght" in errors
    assert "optsmith/study" not in errors


def test_an_error_in_the_first_candidates_comes_from_a_worker_with_its_traceback(folder):
    arguments = ("search", "mine.py:only_rules", "--workers", "2", "--no-baselines")
    code, out, errors = run(folder, *arguments)
    assert (code, out) == (1, "")
    message, _, traceback = errors.partition("\n\nTraceback (most recent call last):\n")
    assert message.splitlines()[-1] == (
        "optsmith: the task only_rules does not run: ValueError: cannot train with Rule"
        " (in all of the first 4 evaluations)"
    )
    assert traceback.endswith("ValueError: cannot train with\nRule\n")
    assert traceback.count("mine.py") == 3
    assert "optsmith/study" not in traceback
    assert "worker" not in traceback
