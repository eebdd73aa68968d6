"""Proxies: their text, the task that is trained, and the settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsmith import Task, TaskError
from optsmith.study._proxy import Proxy, parse_proxy, proxy_task, with_proxy
from optsmith.task import Contest, presets_for
from tasks_for_tests import bowl, line, quadratic


@pytest.mark.parametrize(
    ("text", "proxy"),
    [
        ("steps=0.1,data=0.2", Proxy(steps=0.1, data=0.2)),
        ("data=0.5", Proxy(data=0.5)),
        ("small.py:task", Proxy(task="small.py:task")),
        ("steps=0.5, package.module:small", Proxy(steps=0.5, task="package.module:small")),
    ],
)
def test_the_text_of_a_proxy(text, proxy):
    assert parse_proxy(text) == proxy
    assert parse_proxy(str(proxy)) == proxy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be cheaper"),
        ("steps=1", "must be cheaper"),
        ("steps=0", "above 0 and at most 1, not 0"),
        ("data=1.5", "above 0 and at most 1, not 1.5"),
        ("steps=some", 'must be a number, not "some"'),
        ("step=0.1", "is not a proxy: write steps=0.1,data=0.2"),
        ("tiny", "is not a proxy"),
        ("steps=0.1,steps=0.2", "is not a proxy"),
        ("a.py:b,c.py:d", "is not a proxy"),
    ],
)
def test_other_texts_are_refused(text, message):
    with pytest.raises(TaskError, match=message):
        parse_proxy(text)


def test_fewer_steps_need_no_other_task():
    task = line()
    assert proxy_task(task, Proxy(steps=0.1)) is None


def test_less_data_is_a_subset_of_the_task():
    task = line()
    small = proxy_task(task, Proxy(data=0.5))
    assert small is not None
    assert small is not task
    assert small.objective == task.objective


def test_a_training_loop_of_ones_own_has_no_subset():
    with pytest.raises(TaskError, match="cannot be divided"):
        proxy_task(bowl(), Proxy(data=0.5))


def test_a_smaller_task_is_loaded_and_must_have_the_same_direction(tmp_path):
    (tmp_path / "small_tasks.py").write_text(
        "from optsmith import Objective, Task\n"
        "def loop(run):\n    yield 1.0\n"
        "small = Task.from_function(loop, steps=5)\n"
        "other = Task.from_function(loop, steps=5,"
        " objective=Objective('accuracy', 'maximize', 'last'))\n"
    )
    path = tmp_path / "small_tasks.py"
    assert proxy_task(bowl(), Proxy(task=f"{path}:small")).name == "loop"
    with pytest.raises(TaskError, match="must minimize its objective as the task bowl does"):
        proxy_task(bowl(), Proxy(task=f"{path}:other"))


def contested(steps: int):
    contest = Contest(race=(0.1, 0.3), finalists=2, looks=(8,))
    return replace(presets_for(steps)["quick"], contest=contest)


def test_runs_of_the_search_and_of_the_race_have_the_length_of_the_proxy():
    settings = with_proxy(contested(10_000), Proxy(steps=0.03), None, "quick")
    protocol = settings.protocol
    assert (protocol.proxy_steps, protocol.steps) == (300, 300)
    assert (protocol.tune_steps, protocol.final_steps) == (10_000, 10_000)
    assert settings.contest.race == (0.01, 0.03)


def test_a_proxy_never_has_fewer_steps_than_rank_rules():
    assert with_proxy(contested(100), Proxy(steps=0.01), None, "quick").protocol.steps == 20


def test_a_subset_of_the_data_does_not_change_the_lengths():
    settings = contested(1000)
    assert with_proxy(settings, Proxy(data=0.2), None, "quick") == settings


def test_a_smaller_task_brings_its_own_length():
    small = Task.from_function(quadratic, steps=400)
    settings = with_proxy(contested(10_000), Proxy(task="small.py:small"), small, "quick")
    assert settings.protocol.steps == 400
    assert settings.protocol.final_steps == 10_000
