"""Race, comparison and claim, with invented scores; and how they are resumed."""

from __future__ import annotations

import hashlib
import random
import time
from dataclasses import replace

import pytest

from optsmith import Evaluation, Objective, Protocol, Status
from optsmith.evaluation import GridPoint
from optsmith.execution import Executor
from optsmith.storage import Store
from optsmith.study import Entry, Ledger
from optsmith.study._clock import Clock
from optsmith.study._contest import Comparing
from optsmith.study._forecast import Forecast
from optsmith.study._guard import Guard
from optsmith.study._race import Finalist, _in_turns, race
from optsmith.study._stages import looks_of, stages_of
from optsmith.study._timed_ledger import TimedLedger
from optsmith.task import Contest, Preset

CONTEST = Contest(
    race=(0.1, 0.3), finalists=2, selection_seeds=2, looks=(8, 16, 32), horizons=(0.5, 0.75),
    checks=True,
)  # fmt: skip
PROTOCOL = Protocol(proxy_steps=30, steps=30, final_steps=100, tune_steps=100, lr_search="auto")
TERMS = Preset(protocol=PROTOCOL, contest=CONTEST)


class Invented(Executor):
    """Returns scores by recipe: a level that falls with the length of a run, noise by seed."""

    workers = 2

    def __init__(self, levels: dict[str, float], noise: float = 0.01) -> None:
        self.levels, self.noise = levels, noise
        self.stages = stages_of(TERMS)
        self.jobs = []
        self._waiting = []

    def start(self, function, context, prepare=None) -> None:
        raise AssertionError("it is started already")

    def submit(self, key, job) -> None:
        self.jobs.append(job)
        self._waiting.append((key, job))

    def wait(self, timeout=None):
        key, job = self._waiting.pop()
        rates = zip(job.recipes, job.lrs, job.around, strict=True)
        return [(key, [self._evaluation(job, *rate) for rate in rates])]

    def _evaluation(self, job, recipe, lr, around) -> Evaluation:
        stage = self.stages[job.stage].at(job.fidelity, job.block, lr, around)
        level = self.levels.get(recipe)
        if level is None:
            return Evaluation(recipe, Status.FAILED, error="TaskError: it needs the model")
        level *= 0.5 ** (stage.steps / 100)
        if lr is not None and lr != 0.1:
            level *= 1.2
        scores = tuple(level * (1 + self.noise * self._luck(recipe, s)) for s in stage.seeds)
        score = sum(scores) / len(scores) if scores else level
        return Evaluation(
            recipe, Status.OK, score, lr or 0.1, grid=(GridPoint(0.1, level),), seeds=stage.seeds,
            scores=scores, metrics={"test loss": scores}, steps=stage.steps, trained=stage.steps,
            ms_per_step=1.0,
        )  # fmt: skip

    def _luck(self, recipe: str, seed: int) -> float:
        digest = hashlib.blake2b(f"{recipe}{seed}".encode(), digest_size=8).digest()
        return random.Random(digest).gauss(0, 1)

    def close(self) -> None:
        pass


LEVELS = {"m1": 0.9, "sign(g)": 1.3, "torch:adam": 1.0, "torch:sgd": 2.0, "torch:adamw": 1.1}


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path, "a") as opened:
        yield opened


def ledger_of(store, executor, group: int = 4) -> Ledger:
    return Ledger(store, executor, group, lambda phase, evaluation: None, Guard("task"))


def timed_ledger(
    store, executor, started: float, terms: Preset, until: float | None
) -> TimedLedger:
    clock, block = Clock(store, started), looks_of(terms)[0]
    ledger, forecast = ledger_of(store, executor), Forecast(terms, ("torch:adam",), 2)
    # A step takes ten seconds.
    known = Evaluation("m1", Status.OK, trained=100, seconds=1000.0)
    forecast.add("opponents", known, 0.0)
    return TimedLedger(ledger, clock, until, block, lambda phase, jobs: None, forecast)


def compare(store, executor, terms: Preset = TERMS, until: float | None = None):
    comparing = Comparing(timed_ledger(store, executor, 0.0, terms, until), terms, Objective(), {})
    rules = [Finalist("sign(g)", 0.1), Finalist("m1", 0.1)]
    return comparing.run(rules, [Finalist("torch:adamw", 0.1), Finalist("torch:adam", 0.1)])


# --- ledger ---------------------------------------------------------------------------------------


def test_what_is_stored_is_not_evaluated_again(store):
    entries = [Entry("report", recipe, lr=0.1) for recipe in LEVELS]
    first = ledger_of(store, Invented(LEVELS)).evaluate("report", entries)
    again = Invented(LEVELS)
    found = ledger_of(store, again).evaluate("report", entries)
    assert [e.scores for e in found] == [e.scores for e in first]
    assert again.jobs == []


def test_a_group_that_is_stored_in_part_is_evaluated_as_a_whole_and_what_is_stored_stays(store):
    entries = [Entry("report", recipe, lr=0.1) for recipe in LEVELS]
    groups = Invented(LEVELS)
    ledger_of(store, groups, 2).evaluate("report", entries)
    one = entries[0]
    store.set_attr(
        one.key, replace(groups._evaluation(groups.jobs[0], "m1", 0.1, None), lr=0.5).to_json()
    )
    lost = entries[1]
    kept = {key: value for key, value in store.attrs.items() if key != lost.key}

    class Partial:
        name, attrs = store.name, kept
        set_attr = store.set_attr

    again = Invented(LEVELS)
    found = ledger_of(Partial(), again, 2).evaluate("report", entries)
    assert [job.recipes for job in again.jobs] == [("m1", "sign(g)")]
    assert found[0].lr == 0.5


def test_entries_are_grouped_by_what_they_share(store):
    executor = Invented(LEVELS)
    entries = [Entry("report", recipe, share, lr=0.1) for share in (0.5, 1.0) for recipe in LEVELS]
    ledger_of(store, executor, 4).evaluate("report", entries)
    assert [(job.fidelity, len(job.recipes)) for job in executor.jobs] == [
        (0.5, 4), (0.5, 1), (1.0, 4), (1.0, 1),
    ]  # fmt: skip


# --- race -----------------------------------------------------------------------------------------

MANY = {f"torch:adam+{name}": 1 + 0.1 * i for i, name in enumerate("abcdefghij")}


def test_the_best_opponents_reach_the_comparison(store):
    executor, rivals = Invented(MANY, noise=0.0), []
    finalists, raced = race(
        ledger_of(store, executor),
        list(reversed(MANY)),
        CONTEST,
        0.3,
        Objective(),
        rivals.append,
        print,
    )
    assert [f.recipe for f in finalists] == ["torch:adam+a", "torch:adam+b"]
    assert {one.recipe for one in raced} == set(MANY) - {f.recipe for f in finalists}
    assert [e.recipe for e in rivals] == ["torch:adam+a"]
    assert {one.fidelity for one in raced} == {0.1, 0.3}
    lengths = {(job.stage, job.fidelity) for job in executor.jobs}
    assert lengths == {("race", 0.1), ("race", 0.3), ("search", 1.0)}


def test_longer_parts_of_the_race_try_the_neighbours_of_the_best_rate(store):
    executor = Invented(MANY)
    race(ledger_of(store, executor), list(MANY), CONTEST, 0.3, Objective(), lambda _: None, print)
    for job in executor.jobs:
        expected = 0.1 if job.fidelity == 0.3 else None
        assert set(job.around) == {expected}


def test_an_opponent_that_fails_leaves_with_its_reason(store):
    levels = {"torch:adam": 1.0, "torch:sgd": 2.0}
    finalists, raced = race(
        ledger_of(store, Invented(levels)), [*levels, "torch:muon"], CONTEST, 0.3, Objective(),
        lambda _: None, print,
    )  # fmt: skip
    assert len(finalists) == 2
    (left,) = raced
    assert (left.recipe, left.score, left.reason) == (
        "torch:muon", None, "TaskError: it needs the model",
    )  # fmt: skip


def test_without_a_race_all_opponents_are_compared(store):
    finalists, raced = race(
        ledger_of(store, Invented({})),
        ["torch:adam"],
        Contest(),
        1.0,
        Objective(),
        lambda _: None,
        print,
    )
    assert finalists == [Finalist("torch:adam")]
    assert raced == []


# --- comparison -----------------------------------------------------------------------------------


def test_the_best_rule_and_opponent_are_chosen_on_selection_seeds_and_compared_on_others(store):
    claim = compare(store, Invented(LEVELS)).claim
    assert (claim.rule, claim.opponent) == ("m1", "torch:adam")
    assert claim.paired.better("minimize")
    assert claim.paired.change == pytest.approx(-0.1, abs=0.03)
    assert claim.recommended == "m1"
    assert not set(claim.selection_seeds) & set(claim.report_seeds)
    assert len(claim.report_seeds) == claim.paired.seeds == 8
    assert (claim.looks, claim.stopped) == (1, "")
    assert claim.metrics["test loss"].change == pytest.approx(claim.paired.change)


def test_seeds_are_added_until_the_comparison_is_decided(store):
    close = {**LEVELS, "m1": 0.97}
    claim = compare(store, Invented(close, noise=0.05)).claim
    assert claim.paired.seeds in (16, 32)
    assert len(set(claim.report_seeds)) == claim.paired.seeds


def test_equal_recipes_are_not_told_apart(store):
    equal = {**LEVELS, "m1": 1.0}
    claim = compare(store, Invented(equal, noise=0.02)).claim
    assert not claim.paired.decided
    assert (claim.paired.seeds, claim.looks, claim.stopped) == (32, 3, "seeds")
    # What is recommended is better on report seeds, which have chosen nothing.
    better = claim.rule_score < claim.opponent_score
    assert claim.recommended == (claim.rule if better else claim.opponent)


def test_an_opponent_that_wins_is_recommended(store):
    claim = compare(store, Invented({**LEVELS, "m1": 1.2})).claim
    assert claim.recommended == claim.opponent == "torch:adam"
    assert claim.speed_up is None


def test_the_winner_needs_less_training_for_the_same_result(store):
    claim = compare(store, Invented(LEVELS, noise=0.001)).claim
    # Scores halve over a full run, so 0.9 of the score is reached 15 % of a run earlier.
    assert claim.speed_up.share == pytest.approx(0.85, abs=0.02)


def test_the_winner_is_checked_at_other_rates_and_at_twice_the_horizon(store):
    half, double, longer = compare(store, Invented(LEVELS, noise=0.001)).claim.checks
    assert half.paired.change == double.paired.change == pytest.approx(0.2, abs=0.01)
    assert half.against == "m1"
    assert longer.against == "torch:adam"
    assert longer.paired.change == pytest.approx(-0.1, abs=0.01)


def test_without_time_optional_parts_are_left_out_and_a_later_session_repeats_that(store):
    equal = dict.fromkeys(LEVELS, 1.0)
    claim = compare(store, Invented(equal, noise=0.02), until=0.0).claim
    assert (claim.paired.seeds, claim.stopped) == (8, "time")
    assert claim.checks == ()
    assert claim.speed_up is None
    again = Invented(equal, noise=0.02)
    assert compare(store, again, until=1e12).claim == claim
    assert again.jobs == []


def test_a_recipe_that_cannot_be_tuned_keeps_its_status(store):
    result = compare(store, Invented({k: v for k, v in LEVELS.items() if k != "torch:adamw"}))
    (row,) = [row for row in result.rows if row.recipe == "torch:adamw"]
    assert row.status is Status.FAILED
    assert result.claim.opponent == "torch:adam"


def test_without_an_opponent_there_is_no_claim(store):
    result = compare(store, Invented({"m1": 1.0, "sign(g)": 2.0}))
    assert result.claim is None
    assert len(result.rows) == 4


def test_the_papers_comparison_is_one_look_at_all_recipes(store):
    paper = Preset(protocol=PROTOCOL.replace(tune_steps=None, lr_search="grid", final_seeds=4))
    executor = Invented(LEVELS, noise=0.0)
    executor.stages = stages_of(paper)
    claim = compare(store, executor, paper).claim
    assert claim.rule == "sign(g)"  # the best by the search's score, because tuning runs are short
    assert claim.opponent == "torch:adam"
    assert claim.paired.seeds == 4
    assert not claim.paired.decided
    assert {job.stage for job in executor.jobs} == {"selection", "report"}


def test_with_little_time_the_worse_finalists_are_left_out(store):
    executor = Invented(LEVELS)
    timed = timed_ledger(store, executor, time.monotonic(), TERMS, 2e4)
    comparing = Comparing(timed, TERMS, Objective(), {})
    # A rule or an opponent needs 17 runs of 100 steps: 17,000 s; there are two workers.
    rules = [Finalist("m1", 0.1), Finalist("sign(g)", 0.1)]
    opponents = [Finalist("torch:adam", 0.1), Finalist("torch:adamw", 0.1)]
    rows = comparing.run(rules, opponents).rows
    assert [row.recipe for row in rows] == ["m1", "torch:adam"]


def test_short_runs_do_not_choose_between_schedules():
    names = ["torch:muon", "torch:adam", "torch:muon+cosine", "torch:adam+cosine", "torch:sgd"]
    ranked = [Evaluation(name, Status.OK, score=float(i)) for i, name in enumerate(names)]
    assert [e.recipe for e in _in_turns(ranked)] == [
        "torch:muon", "torch:muon+cosine", "torch:adam", "torch:adam+cosine", "torch:sgd",
    ]  # fmt: skip
