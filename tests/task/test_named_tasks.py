"""The registry of tasks, and tasks loaded from files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from optsmith import OptsmithError, TaskError, tasks
from optsmith.task import find_task
from optsmith.testing import check_task

SHARED = Path(__file__).parents[3] / "shared" / "data"
NAMES = {
    "mnistnet": 15910,
    "mnistnet-2layer": 16330,
    "mnistnet-big": 31810,
    "mnistnet-relu": 15910,
}


@pytest.fixture
def data_dir() -> Path:
    if not (SHARED / "mnist").is_dir():
        pytest.skip(f"MNIST is not in {SHARED}")
    return SHARED


def parameters(task) -> int:
    return sum(p.numel() for p in task.make(torch.device("cpu")).parameters())


def test_digits_needs_no_data_directory_and_keeps_the_contract():
    task = find_task("digits")
    check_task(task)
    assert parameters(task) == 64 * 20 + 20 + 20 * 10 + 10


@pytest.mark.parametrize(("name", "count"), list(NAMES.items()))
def test_mnistnet_has_the_paper_s_networks(data_dir, name, count):
    task = find_task(name, data_dir)
    assert parameters(task) == count
    assert task.data.batch_size == 128
    if name == "mnistnet":
        check_task(task)


def test_the_halves_of_mnist_are_fixed_disjoint_and_whole(data_dir):
    one, two = (find_task("mnistnet", data_dir) for _ in range(2))
    assert torch.equal(one.data.inputs, two.data.inputs)
    assert len(one.data.inputs) == len(one.test.inputs) == 30_000
    counts = torch.bincount(torch.cat([one.data.targets, one.test.targets]))
    assert counts.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert 0 <= one.data.inputs.min() < one.data.inputs.max() == 1


def test_the_paper_preset_has_the_paper_s_numbers():
    protocol = find_task("digits").preset("paper").protocol
    assert protocol.lrs == (0.0006, 0.001, 0.003, 0.006, 0.01, 0.03, 0.06, 0.1, 0.3, 1.0)
    assert (protocol.proxy_steps, protocol.steps, protocol.final_steps) == (100, 100, 1000)
    assert (protocol.score_seeds, protocol.final_seeds, protocol.threshold) == (10, 4, 10.0)
    preset = find_task("digits").preset("paper")
    assert (preset.budget, preset.options, preset.dedupe, preset.trajectory) == (
        128, {}, "equal", False,
    )  # fmt: skip


def test_every_named_task_is_described():
    assert {"digits", *NAMES} <= set(tasks)
    assert all(entry.description for entry in tasks.values())


def test_a_task_in_a_file_is_found(tmp_path):
    tests = Path(__file__).parents[1]
    file = tmp_path / "mine.py"
    file.write_text(
        f"import sys; sys.path.insert(0, {os.fspath(tests)!r})\n"
        "from tasks_for_tests import bowl\ntask = bowl()\nnumber = 3\n"
    )
    assert find_task(f"{file}:task").name == "bowl"
    with pytest.raises(TaskError, match=r'no task named "number"; it has task'):
        find_task(f"{file}:number")
    with pytest.raises(TaskError, match="there is no file"):
        find_task(f"{tmp_path}/other.py:task")
    file.write_text("1 / 0")
    with pytest.raises(TaskError, match="cannot be imported: ZeroDivisionError"):
        find_task(f"{file}:task")


def test_an_unknown_task_is_said():
    with pytest.raises(OptsmithError, match='did you mean "mnistnet"'):
        find_task("mnistnt")
