"""Searches whole: the same result however they are run, continued or disturbed."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from study_runs import Threads

import optsmith
from optsmith import Rule, RuleOptimizer, Status, Study, StudyError, Task, TaskError
from optsmith.execution import InProcess, Processes
from optsmith.searchers import Candidate, Searcher
from optsmith.study import Finding, Observer, _identity, _phases
from optsmith.study._runner import Runner
from tasks_for_tests import PROTOCOL, bowl, line

SMALL = {"budget": 6, "options": {"levels": 2}, "workers": 0, "baselines": [], "proposals": 2}


def search(tmp_path: Path, task: Task | None = None, **changes) -> Study:
    return optsmith.search(task or bowl(), storage=tmp_path, **{**SMALL, **changes})


def facts(study: Study) -> list[object]:
    """All of a study but the time it took."""
    records = [
        (r.candidate, r.rule, r.state, r.score, r.lr, r.data["grid"], r.data["scores"])
        for r in study.records
    ]
    summary = {k: v for k, v in study.summary.items() if k != "seconds"}
    finals = [(e.recipe, e.score, e.lr, e.scores, e.metrics) for e in study.final.rows]
    return [records, summary, finals, study.best().recipe]


TINY = PROTOCOL.replace(lrs=(0.1,), proxy_steps=2, steps=2, final_steps=2, score_seeds=1)


class Stop(Exception):  # noqa: N818 - not an error
    pass


class StopAfter(Observer):
    """Ends a search after so many evaluations."""

    def __init__(self, evaluations: int) -> None:
        self.left = evaluations

    def told(self, candidate, outcome) -> None:
        self.left -= outcome.evaluated
        if self.left == 0:
            raise Stop


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[object]:
    return facts(search(tmp_path_factory.mktemp("study")))


def test_a_search_finds_a_rule_and_says_what_became_of_every_draw(tmp_path):
    study = search(tmp_path, baselines=None, warm_start=False)
    counts = study.summary["counts"]
    kinds = ("duplicate", "rejected", "early_stopped", "diverged", "failed", "timed_out")
    ended = counts["accepted"] + sum(counts[k] for k in kinds) + sum(counts["refused"].values())
    assert (
        counts["drawn"] == ended == sum(d["draws"] for d in study.summary["searcher"]["decisions"])
    )
    assert counts["accepted"] == 6
    assert study.finished
    assert len(study.final.baselines) == 44
    best = study.best()
    assert isinstance(best, Finding)
    assert study.best(2)[0].recipe == best.recipe
    scores = [e.score for e in study.evaluations if e.status is Status.OK]
    assert best.search_score == min(scores)
    assert study.best(2)[1].search_score == sorted(scores)[1]
    assert best.recipe in study.verdict
    w = torch.ones(2, requires_grad=True)
    assert isinstance(best.optimizer([w], total_steps=9), RuleOptimizer)
    assert len(study.table()) == len(study.records)
    # What is reported comes from seeds that the search never used.
    used = {0, *range(1, 3)}
    assert not used & set(best.held_out.seeds)


@pytest.mark.parametrize("workers", [1, 4])
def test_the_number_of_workers_changes_nothing(tmp_path, undisturbed, workers):
    assert facts(search(tmp_path, workers=workers)) == undisturbed


@pytest.mark.parametrize("evaluations", [1, 3, 4, 6])
def test_an_interrupted_search_goes_on_as_if_nothing_had_been(tmp_path, undisturbed, evaluations):
    with pytest.raises(Stop):
        search(tmp_path, observer=StopAfter(evaluations))
    study = Study.load("bowl-quick-mct-0", tmp_path)
    assert not study.finished
    assert len(study.records) == evaluations
    assert study.best(9)
    assert facts(search(tmp_path)) == undisturbed


STACKED = {"task": line(), "budget": 20}


@pytest.fixture(scope="module")
def side_by_side(tmp_path_factory) -> list[object]:
    return facts(search(tmp_path_factory.mktemp("study"), **STACKED))


@pytest.mark.parametrize("workers", [1, 3])
def test_nor_does_it_where_candidates_are_evaluated_side_by_side(tmp_path, side_by_side, workers):
    study = search(tmp_path, **STACKED, workers=workers)
    assert study.about["stacking"]["copies"] == 64
    assert facts(study) == side_by_side


@pytest.mark.parametrize("evaluations", [1, 6, 8, 14])
def test_such_a_search_goes_on_as_it_began(tmp_path, side_by_side, evaluations, monkeypatch):
    """How runs are trained is written down: another day a clock may say otherwise."""
    with pytest.raises(Stop):
        search(tmp_path, **STACKED, observer=StopAfter(evaluations))
    records = Study.load("line-quick-mct-0", tmp_path).records
    assert len(records) >= evaluations
    monkeypatch.setattr(_identity, "choose_stacking", lambda *_: pytest.fail("chosen again"))
    assert facts(search(tmp_path, **STACKED)) == side_by_side


def test_a_time_limit_is_that_of_one_candidate(tmp_path, monkeypatch):
    groups = []

    class Noting(Runner):
        def _submit(self, entries):
            groups.append(len(entries))
            super()._submit(entries)

    class Limited(InProcess):
        time_limit = 1.0  # declared but not enforced, so that no clock matters

    monkeypatch.setattr(_phases, "Runner", Noting)
    search(tmp_path, line(), workers=None, executor=Limited())
    assert set(groups) == {1}
    groups.clear()
    search(tmp_path, line(), study="another", workers=None, executor=InProcess())
    assert max(groups) > 1


def test_nothing_is_evaluated_twice(tmp_path, monkeypatch):
    calls = []
    task = bowl()
    start = task.start
    monkeypatch.setattr(task, "start", lambda run: calls.append(str(run.recipe)) or start(run))
    first = search(tmp_path, task)
    assert calls
    calls.clear()
    again = search(tmp_path, task)
    assert set(calls) == {"g"}  # the checks of the task
    assert len(calls) < 10
    assert facts(again) == facts(first)


def test_a_larger_budget_goes_on_and_gives_what_it_would_have_given_at_once(tmp_path):
    search(tmp_path / "one")
    grown = search(tmp_path / "one", budget=10)
    assert facts(grown) == facts(search(tmp_path / "two", budget=10))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": {"levels": 3}}, "levels 2, not 3"),
        ({"protocol": PROTOCOL.replace(steps=13)}, "steps 12, not 13"),
        ({"dedupe": "scale"}, "dedupe equal, not scale"),
        ({"descent": False}, "descent True, not False"),
        ({"space": "convnet"}, "space paper, not convnet"),
        ({"task": line(name="bowl")}, "another model or data"),
    ],
)
def test_other_settings_are_refused_and_named(tmp_path, change, message):
    before = facts(search(tmp_path, study="mine"))
    with pytest.raises(StudyError, match=message):
        search(tmp_path, **{"study": "mine", **change})
    assert facts(Study.load("mine", tmp_path)) == before


def test_seeds_give_other_searches(tmp_path, undisturbed):
    assert facts(search(tmp_path, seed=1))[0] != undisturbed[0]


def test_random_search_runs_through_the_same_path(tmp_path):
    study = search(tmp_path, algorithm="random", options={})
    assert {r.candidate.partition(":")[0] for r in study.records} == {"start", "0"}
    assert study.summary["counts"]["accepted"] == 6
    assert study.settings["options"] == {"rungs": "1", "draws": 18000, "count_all": False}


def test_without_the_descent_test_more_is_trained(tmp_path):
    strict, loose = search(tmp_path), search(tmp_path, descent=False, trajectory=False, study="l")
    reasons = [s.summary["counts"]["refused"] for s in (strict, loose)]
    assert "fails the descent test" in reasons[0]
    assert not {"fails the descent test", "fails the trajectory descent test"} & set(reasons[1])


def test_duplicates_are_told_apart_only_as_asked(tmp_path):
    """The same draws: with nothing known, every duplicate is trained."""
    settings = {"budget": 30, "options": {"levels": 1}, "space": "convnet", "protocol": TINY}
    counts = {
        dedupe: search(tmp_path, dedupe=dedupe, study=dedupe, **settings).summary["counts"]
        for dedupe in ("none", "equal", "scale")
    }
    assert counts["none"]["duplicate"] == 0
    assert counts["equal"]["duplicate"] > 0
    per_draw = {k: c["duplicate"] / c["drawn"] for k, c in counts.items()}
    assert per_draw["scale"] > per_draw["equal"]


def test_operators_of_the_user_reach_the_workers(tmp_path):
    from optsmith import Operator, Space, operators, spaces

    operators.register(Operator("halve", 1, torch=lambda x: x / 2))
    try:
        paper = spaces["paper"]
        space = Space([operators["halve"], *paper.operators], paper.constraints, name="halved")
        cold = {"space": space, "budget": 12, "warm_start": False}
        here, there = (search(tmp_path, **cold, workers=n, study=f"with {n}") for n in (0, 2))
        assert any("halve" in r.rule for r in there.records)
        assert facts(here)[0] == facts(there)[0]
    finally:
        operators.remove("halve")


def test_a_task_that_does_not_run_is_said_before_anything_is_written(tmp_path):
    def broken(run):
        run.optimizer([torch.ones(1, requires_grad=True)])
        yield 1 / 0

    with pytest.raises(TaskError, match="does not run: ZeroDivisionError"):
        search(tmp_path / "x", Task.from_function(broken, protocol=PROTOCOL))

    def nan(run):
        run.optimizer([torch.ones(1, requires_grad=True)])
        for _ in range(run.steps):
            yield float("nan")

    with pytest.raises(TaskError, match="not finite"):
        search(tmp_path / "x", Task.from_function(nan, protocol=PROTOCOL))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": "mtc"}, 'did you mean "mct"'),
        ({"space": "papr"}, 'did you mean "paper"'),
        ({"budget": 0}, "budget must be at least 1"),
        ({"dedupe": "all"}, "none, equal, scale"),
        ({"time_limit": 0.0, "workers": 1}, "time limit must be more than 0 seconds"),
        ({"time_limit": 5.0}, "worker process"),
        ({"preset": "slow"}, "has no preset"),
        ({"study": "a/b"}, "a/b"),
        ({"options": {"level": 2}}, 'has no option "level"; did you mean "levels"'),
        ({"options": {"levels": 2.5}}, "must be an integer, not 2.5"),
        ({"options": {"levels": 0}}, "levels must be at least 1"),
        ({"proposals": 0}, "proposals must be at least 1"),
        ({"stack": 0}, "at least 1 copy"),
    ],
)
def test_settings_that_make_no_sense_are_said(tmp_path, change, message):
    with pytest.raises(optsmith.OptsmithError, match=message):
        search(tmp_path, **change)


# --- candidates that misbehave --------------------------------------------------------------------

HOOK = "sign(m1)"


def slow_for_long_rules(run):
    """Hangs for rules of some length, so that a time limit has something to end."""
    w = torch.ones(3, requires_grad=True)
    optimizer = run.optimizer([w])
    if isinstance(run.recipe, Rule) and run.recipe.length == 5:
        time.sleep(60)
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = (w**2).sum()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def test_a_hung_evaluation_is_ended_at_its_time_limit_and_the_search_goes_on(tmp_path):
    task = Task.from_function(slow_for_long_rules, protocol=PROTOCOL)
    study = search(tmp_path, task, workers=2, time_limit=4.0, budget=4, options={"levels": 1})
    late = [e for e in study.evaluations if e.status is Status.TIMED_OUT]
    assert late
    assert all(e.rule.length == 5 and "4 s" in e.error for e in late)
    assert study.summary["counts"]["accepted"] == 4
    assert study.summary["counts"]["timed_out"] == len(late)


def raising(run):
    """Fails in every way for some rules."""
    w = torch.ones(3, requires_grad=True)
    optimizer = run.optimizer([w])
    for _ in range(run.steps):
        if isinstance(run.recipe, Rule) and run.recipe.length > 4:
            raise ValueError("too long")
        optimizer.zero_grad()
        loss = (w**2).sum()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def test_errors_of_candidates_are_recorded_and_the_search_goes_on(tmp_path):
    study = search(tmp_path, Task.from_function(raising, protocol=PROTOCOL))
    failed = [e for e in study.evaluations if e.status is Status.FAILED]
    assert failed
    assert {e.error for e in failed} == {"ValueError: too long"}
    assert all("in raising\n" in e.traceback for e in failed)
    assert study.summary["counts"]["accepted"] == 6


def test_evaluate_compares_recipes_like_the_end_of_a_search(tmp_path):
    study = search(tmp_path)
    rule = study.best().recipe
    comparison = optsmith.evaluate(bowl(), [rule, "torch:sgd"], workers=0)
    mine = next(e for e in comparison.rows if e.recipe == rule)
    assert mine.scores == study.best().held_out.scores
    with pytest.raises(TaskError, match="nothing to evaluate"):
        optsmith.evaluate(bowl(), [])


# --- searchers, executors, fidelities -------------------------------------------------------------


def test_any_executor_will_do(tmp_path, undisturbed):
    executor = Threads()
    assert facts(search(tmp_path, workers=None, executor=executor)) == undisturbed
    assert (executor.started, executor.closed) == (1, 1)
    recipes = ["g", "torch:adam"]
    ours, theirs = (
        optsmith.evaluate(bowl(), recipes, **how)
        for how in ({"workers": 0}, {"executor": Threads()})
    )
    assert [(e.recipe, e.scores) for e in ours.rows] == [(e.recipe, e.scores) for e in theirs.rows]


def test_an_executor_brings_its_own_workers_and_time_limit(tmp_path):
    executor = Threads()
    for changes in ({"workers": 2}, {"workers": None, "time_limit": 3.0}):
        with pytest.raises(StudyError, match="an executor has its own workers and time limit"):
            search(tmp_path, executor=executor, **changes)
    limited = Processes(workers=1, time_limit=60.0)
    assert search(tmp_path, workers=None, executor=limited).settings["time_limit"] == 60.0


RUNGS = {"algorithm": "random", "options": {"rungs": "0.25,1"}, "budget": 12}


def test_what_is_proposed_is_chosen_at_full_length(tmp_path):
    study = search(tmp_path, **RUNGS)
    by_fidelity = {f: [r for r in study.records if r.fidelity == f] for f in (0.25, 1.0)}
    assert (len(by_fidelity[1.0]), study.summary["counts"]["accepted"]) == (3, 15)
    assert {r.data["steps"] for r in by_fidelity[0.25]} == {3}  # of 12
    assert {r.data["steps"] for r in by_fidelity[1.0]} == {12}
    full = sorted((r.score, r.rule) for r in by_fidelity[1.0])
    assert [(e.search_score, e.recipe) for e in study.best(9)] == full
    assert {e.recipe for e in study.final.rules} == {rule for _, rule in full[:2]}
    assert {r.phase for r in study.records} == {"starting points", "rung 25 %", "rung 100 %"}
    assert study.summary["log"] == ["rung 25 %: 3 promoted to rung 100 %"]
    assert facts(search(tmp_path / "again", **RUNGS, workers=2)) == facts(study)


@pytest.mark.parametrize("evaluations", [2, 12, 14])
def test_a_search_over_rungs_goes_on_where_it_was_stopped(tmp_path, evaluations):
    whole = facts(search(tmp_path / "whole", **RUNGS))
    with pytest.raises(Stop):
        search(tmp_path, **RUNGS, observer=StopAfter(evaluations))
    assert facts(search(tmp_path, **RUNGS)) == whole


EVOLUTION = {"algorithm": "evolution", "options": {"children": 6, "tuning": 0.5}, "budget": 40}


def test_an_evolution_is_the_same_with_workers_and_goes_on_where_it_was_stopped(tmp_path):
    study = search(tmp_path / "whole", **EVOLUTION)
    assert {r.fidelity for r in study.records} == {0.3, 1.0}
    assert {r.phase for r in study.records} >= {"generation 1", "generation 2", "choice", "tuning"}
    assert {r.data["steps"] for r in study.records if r.fidelity == 1} == {20}
    assert facts(search(tmp_path / "workers", **EVOLUTION, workers=2)) == facts(study)
    for evaluations in (3, 20):
        with pytest.raises(Stop):
            search(tmp_path, **EVOLUTION, observer=StopAfter(evaluations))
    assert facts(search(tmp_path, **EVOLUTION)) == facts(study)


class Rates(Searcher):
    """Tries one rule at several learning rates and on several blocks of seeds."""

    rates = (0.1, 0.2)

    def ask(self, n):
        asked = self.left[:n]
        del self.left[:n]
        return asked

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.left = [
            Candidate(f"{rate} {block}", Rule.parse("m1"), lr=rate, block=block)
            for rate in self.rates
            for block in (0, 2)
        ]
        self.heard = []

    def tell(self, candidate, outcome) -> None:
        self.heard.append(outcome)


def test_rates_and_blocks_of_seeds_reach_the_evaluation(tmp_path):
    study = search(tmp_path, algorithm=Rates, options={}, workers=1)
    found = {(r.candidate, r.fixed_lr, r.block): r.data for r in study.records}
    assert list(found) == [
        ("0.1 0", 0.1, 0),
        ("0.1 2", 0.1, 2),
        ("0.2 0", 0.2, 0),
        ("0.2 2", 0.2, 2),
    ]
    assert [data["seeds"] for data in found.values()] == [[1, 2], [5, 6]] * 2
    assert [data["lr"] for data in found.values()] == [0.1, 0.1, 0.2, 0.2]
    assert all(data["grid"] == [] for data in found.values())
    assert study.settings["algorithm"] == "Rates"
    # Ranked by the mean over its blocks of seeds, and once.
    (best,) = study.best(9)
    means = {rate: sum(d["score"] for k, d in found.items() if k[1] == rate) for rate in (0.1, 0.2)}
    assert best.search.lr == min(means, key=means.__getitem__)


def test_a_replay_that_asks_for_something_else_is_refused(tmp_path, monkeypatch):
    """As when a searcher that computes gives other numbers on another machine."""
    settings = {"algorithm": Rates, "options": {}}
    with pytest.raises(Stop):
        search(tmp_path, **settings, observer=StopAfter(2))
    monkeypatch.setattr(Rates, "rates", (0.1, 0.2))
    original = Rates.__init__

    def other(self, *arguments) -> None:
        original(self, *arguments)
        self.left[1] = replace(self.left[1], lr=0.1000001)

    monkeypatch.setattr(Rates, "__init__", other)
    with pytest.raises(StudyError) as caught:
        search(tmp_path, **settings)
    assert str(caught.value).startswith(
        "the study bowl-quick-Rates-0 cannot be resumed: its candidate 0.1 2 was m1 with learning"
        " rate 0.1 on block 2 of the seeds, but now the search asks for m1 with learning rate"
        " 0.1000001 on block 2 of the seeds"
    )
    monkeypatch.undo()
    assert search(tmp_path, **settings).finished


def test_an_operator_that_has_changed_is_named(tmp_path):
    from optsmith import Operator, Space, operators, spaces

    def space(function):
        operators.register(Operator("halve", 1, torch=function))
        paper = spaces["paper"]
        return Space([operators["halve"], *paper.operators], paper.constraints, name="halved")

    try:
        first = search(tmp_path, space=space(lambda x: x / 2))
        assert list(first.settings["definitions"]) == ["halve"]
        evaluated = {"workers": 0, "storage": tmp_path, "study": "table", "protocol": PROTOCOL}
        optsmith.evaluate(bowl(), ["halve(g)"], **evaluated)
        operators.remove("halve")
        changed = space(lambda x: x / 3)
        says = 'another definition of the operator "halve"'
        with pytest.raises(StudyError, match=says):
            search(tmp_path, space=changed)
        with pytest.raises(StudyError, match=says):
            optsmith.evaluate(bowl(), ["halve(g)"], **evaluated)
        operators.remove("halve")
        assert facts(search(tmp_path, space=space(lambda x: x / 2))) == facts(first)
    finally:
        operators.remove("halve")


def test_a_space_that_has_changed_under_its_name_is_refused(tmp_path):
    from optsmith import Space, spaces

    paper = spaces["paper"]
    search(tmp_path, space=Space(paper.operators, paper.constraints, name="mine"))
    with pytest.raises(StudyError, match="other operators or constraints in the space mine"):
        search(tmp_path, space=Space(paper.operators[1:], paper.constraints, name="mine"))


def test_the_size_of_stacks_can_be_given_and_is_recorded(tmp_path):
    study = search(tmp_path, line(), stack=8, warm_start=False)
    assert (study.settings["stack"], study.about["stacking"]["copies"]) == (8, 8)
    with pytest.raises(StudyError, match="stack 8, not none"):
        search(tmp_path, line(), warm_start=False)
    assert facts(search(tmp_path, line(), stack=8, warm_start=False)) == facts(study)
    rows = optsmith.evaluate(line(), ["g"], protocol=PROTOCOL, workers=0, stack=1).rows
    assert rows[0].status is Status.OK
