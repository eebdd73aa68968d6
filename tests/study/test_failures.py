"""Searches whose task or machine fails: what is recorded, and how they are resumed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import optsmith
from optsmith import Evaluation, Rule, Status, Study, StudyError, Task
from optsmith._errors import RemoteTraceback, TaskFailure
from optsmith.execution import Lost
from optsmith.searchers import Candidate, Searcher
from optsmith.study import Observer, Store
from optsmith.study._context import lost_evaluation
from tasks_for_tests import PROTOCOL, quadratic

SMALL = {"budget": 8, "options": {"levels": 2}, "baselines": [], "proposals": 2}


def search(folder: Path, task: Task, workers: int = 0, **changes) -> Study:
    return optsmith.search(task, storage=folder, workers=workers, **{**SMALL, **changes})


def disturbed(trouble, when) -> Task:
    """Return a task that is in trouble for some rules, while a function says so."""

    def train(run):
        if isinstance(run.recipe, Rule) and str(run.recipe) != "g" and when(run.recipe):
            trouble()
        yield from quadratic(run)

    return Task.from_function(train, protocol=PROTOCOL, name="mine")


def out_of_memory():
    raise MemoryError("no room")


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def broken():
    raise ValueError("not yet")


def facts(study: Study) -> list[object]:
    records = [(r.candidate, r.rule, r.score, r.lr, r.data["scores"]) for r in study.records]
    summary = {k: v for k, v in study.summary.items() if k != "seconds"}
    return [records, summary, [(e.recipe, e.score) for e in study.final.rows]]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[object]:
    folder = tmp_path_factory.mktemp("undisturbed")
    return facts(search(folder, disturbed(broken, lambda rule: False)))


class StopAfter(Observer):
    """Interrupts a search after so many evaluations."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.kinds: list[str] = []

    def told(self, candidate, outcome) -> None:
        self.left -= outcome.evaluated
        self.kinds.append(outcome.kind)
        if self.left == 0:
            raise InterruptedError


def is_sum(rule: Rule) -> bool:
    return "+" in str(rule)


# --- the machine ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 8])
def test_a_lost_evaluation_is_repeated_and_the_study_becomes_that_of_an_undisturbed_search(
    tmp_path, undisturbed, count
):
    short = [True]
    task = disturbed(out_of_memory, lambda rule: short[0] and is_sum(rule))
    watcher = StopAfter(count)
    with pytest.raises(InterruptedError):
        search(tmp_path, task, observer=watcher)
    assert "lost" in watcher.kinds
    assert "failed" not in watcher.kinds
    with Store.open(tmp_path, "mine-quick-mct-0", read_only=True) as store:
        assert store.attrs["summary"]["counts"]["lost"] == watcher.kinds.count("lost")
        assert all(record.data["status"] != "lost" for record in store.records())
    short[0] = False
    assert facts(search(tmp_path, task)) == undisturbed


class Adaptive(Searcher):
    """Asks for one of two rules, depending on whether the last one was accepted."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.told: list[bool] = []

    def ask(self, n):
        if len(self.told) == 4 or len(self.told) < getattr(self, "asked", 0):
            return []
        self.asked = len(self.told) + 1
        names = ("m1", "Adam", "RMSprop") if all(self.told) else ("g3", "sm1", "sg")
        rule = "m1 + g" if not self.told else names[len(self.told) - 1]
        return [Candidate(str(len(self.told)), Rule.parse(rule))]

    def tell(self, candidate, outcome) -> None:
        self.told.append(outcome.accepted)


def test_a_searcher_may_ask_for_other_candidates_once_a_lost_one_has_a_score(tmp_path):
    short = [True]
    task = disturbed(out_of_memory, lambda rule: short[0] and is_sum(rule))
    changes = {"algorithm": Adaptive, "options": {}, "study": "adaptive"}
    with pytest.raises(InterruptedError):
        search(tmp_path, task, observer=StopAfter(3), **changes)
    with Store.open(tmp_path, "adaptive", read_only=True) as store:
        assert [r.rule for r in store.records()] == ["g3", "sm1"]
    short[0] = False
    study = search(tmp_path, task, **changes)
    assert [r.rule for r in study.records] == ["m1 + g", "m1", "Adam", "RMSprop"]
    assert facts(study) == facts(search(tmp_path / "other", task, **changes))


def test_a_finished_study_stays_as_it_is_with_what_was_lost(tmp_path):
    task = disturbed(out_of_memory, is_sum)
    first = search(tmp_path, task)
    assert first.summary["counts"]["lost"] > 0
    assert Status.LOST not in {e.status for e in first.evaluations}
    watcher = StopAfter(-1)
    again = search(tmp_path, disturbed(broken, is_sum), observer=watcher)
    assert facts(again) == facts(first)
    assert watcher.kinds.count("lost") == first.summary["counts"]["lost"]


def test_a_worker_that_is_killed_is_not_the_rule_s_fault(tmp_path):
    study = search(tmp_path, disturbed(kill, is_sum), workers=2)
    counts = study.summary["counts"]
    assert (counts["lost"] > 0, counts["failed"], counts["accepted"]) == (True, 0, 8)


def test_a_machine_that_fails_again_and_again_ends_the_search(tmp_path, undisturbed):
    short = [True]
    task = disturbed(out_of_memory, lambda rule: short[0])
    with pytest.raises(StudyError, match="4 evaluations in a row were lost") as caught:
        search(tmp_path, task)
    assert "MemoryError: no room; if there is too little memory, use fewer" in str(caught.value)
    short[0] = False
    assert facts(search(tmp_path, task)) == undisturbed


def test_what_an_executor_loses():
    def status(reason):
        return lost_evaluation("g", Lost(reason, "why", 1.0, "T")).status

    assert [status(r) for r in ("timed_out", "died", "out_of_memory", "raised")] == [
        Status.TIMED_OUT,
        Status.LOST,
        Status.LOST,
        Status.FAILED,
    ]
    assert lost_evaluation("g", Lost("raised", "why", 1.0, "T")) == Evaluation(
        "g", Status.FAILED, seconds=1.0, error="why", traceback="T"
    )


def test_damaged_names_of_lost_evaluations_are_said(tmp_path):
    task = disturbed(broken, lambda rule: False)
    search(tmp_path, task)
    with Store.open(tmp_path, "mine-quick-mct-0") as store:
        store.set_attr("lost", [["0:1"]])
    with pytest.raises(StudyError, match=r'the attribute "lost" of the study .* is damaged'):
        search(tmp_path, task)


# --- the task -------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_a_task_that_fails_can_be_corrected_and_its_search_goes_on(tmp_path, workers, undisturbed):
    flag = tmp_path / "broken"
    flag.touch()
    task = disturbed(broken, lambda rule: flag.exists())
    with pytest.raises(TaskFailure) as caught:
        search(tmp_path / "studies", task, workers)
    failure = caught.value
    assert str(failure) == (
        "the task mine does not run: ValueError: not yet (in all of the first 4 evaluations)"
    )
    assert failure.traceback.startswith("Traceback (most recent call last):\n")
    assert 'raise ValueError("not yet")' in failure.traceback
    assert "optsmith/" not in failure.traceback
    assert isinstance(failure.__cause__, RemoteTraceback)
    flag.unlink()
    assert facts(search(tmp_path / "studies", task, workers)) == undisturbed


def test_an_opponent_that_is_plain_descent_shows_that_the_task_fails(tmp_path):
    def train(run):
        for step, value in enumerate(quadratic(run), start=1):
            if step == 12:  # beyond the runs of the search
                broken()
            yield value

    with pytest.raises(TaskFailure, match=r"ValueError: not yet \(under plain gradient descent\)"):
        search(
            tmp_path,
            Task.from_function(train, protocol=PROTOCOL.replace(steps=11), name="mine"),
            baselines=["torch:sgd"],
        )
    table = Task.from_function(train, protocol=PROTOCOL, name="mine")
    with pytest.raises(TaskFailure, match="under plain gradient descent"):
        optsmith.evaluate(table, ["torch:sgd+cosine"], workers=0)
    (row,) = optsmith.evaluate(table, ["m1"], workers=0).rows
    assert (row.status, row.error) == (Status.FAILED, "ValueError: not yet")


def test_a_failed_row_of_a_comparison_is_evaluated_again(tmp_path):
    wrong = [True]
    task = disturbed(broken, lambda rule: wrong[0])
    recipes = ["m1 + g", "torch:adam"]

    def statuses():
        rows = optsmith.evaluate(task, recipes, workers=0, storage=tmp_path, study="table").rows
        return {row.recipe: row.status for row in rows}

    assert statuses() == {"m1 + g": Status.FAILED, "torch:adam": Status.OK}
    wrong[0] = False
    assert statuses() == {"m1 + g": Status.OK, "torch:adam": Status.OK}
