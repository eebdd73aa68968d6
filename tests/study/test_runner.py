"""Which candidates are evaluated together, and that every candidate is told or cancelled."""

from __future__ import annotations

import pytest
from study_runs import Notes, Shuffling, invented

from optsmith import Evaluation, Rule, Status, StudyError, spaces
from optsmith._errors import RemoteTraceback, TaskFailure
from optsmith.screening import Screen
from optsmith.searchers import Candidate, MonteCarloTree, RandomSearch, Searcher
from optsmith.study import Runner
from optsmith.study._guard import Guard

BUDGET, LEVELS = 40, 2
PAPER = spaces["paper"]


def run(executor: Shuffling, group: int = 4, known: dict | None = None, searcher=None):
    """Return what was recorded, and what the searcher decided."""
    options = MonteCarloTree.Options(levels=LEVELS)
    searcher = searcher or MonteCarloTree(PAPER, BUDGET, seed=3, options=options)
    notes = Notes(known)
    guard = Guard("mine")
    Runner(searcher, Screen(), lambda s: s.fingerprint, executor, group, notes, guard=guard).run()
    assert notes.lines == searcher.log
    return notes.recorded, searcher.summary()


@pytest.fixture(scope="module")
def usual():
    executor = Shuffling(1)
    return (*run(executor), executor.groups)


@pytest.mark.parametrize(("workers", "seed"), [(1, 1), (2, 1), (2, 2), (5, 1), (16, 1)])
def test_groups_do_not_depend_on_workers_or_on_who_is_first(usual, workers, seed):
    recorded, decisions, groups = usual
    executor = Shuffling(workers, seed)
    assert run(executor) == (recorded, decisions)
    assert sorted(executor.groups) == sorted(groups)


def test_groups_get_smaller_towards_the_end_of_a_level(usual):
    recorded, summary, groups = usual
    assert len(summary["decisions"]) == LEVELS
    assert sum(map(len, groups)) == len(recorded)
    by_level = [
        {found.recipe for (name, _), found in recorded.items() if name.startswith(f"{level}:")}
        for level in range(LEVELS)
    ]
    # Twenty are surely needed from the start; then one more for each that is not accepted.
    begin = [4, 4, 4, 4, 2, 1, 1]
    for level in range(LEVELS):
        begun = [len(group) for group in groups if group[0] in by_level[level]]
        assert begun[:7] == begin
        assert set(begun[7:]) <= {1}


def test_without_groups_the_search_is_the_same(usual):
    executor = Shuffling(2)
    assert run(executor, group=1) == usual[:2]
    assert {len(group) for group in executor.groups} == {1}


def test_nothing_is_evaluated_that_is_known(usual):
    recorded, decisions, _ = usual
    executor = Shuffling(2)
    assert run(executor, known=recorded) == ({}, decisions)
    assert executor.groups == []


@pytest.mark.parametrize("lost", [0, 5, 11])
def test_a_group_that_is_known_in_part_is_evaluated_whole_and_what_is_known_stays(usual, lost):
    recorded, decisions, groups = usual
    names = list(recorded)
    known = {name: recorded[name] for i, name in enumerate(names) if i != lost}
    executor = Shuffling(2)
    assert run(executor, known=known) == ({names[lost]: recorded[names[lost]]}, decisions)
    (again,) = executor.groups
    assert again in groups
    assert recorded[names[lost]].recipe in again


def test_one_that_brings_its_worker_down_costs_its_group_nothing_but_time(usual):
    groups = usual[2]
    deadly = groups[1][2]
    executor = Shuffling(2, deadly=deadly)
    found, _ = run(executor)
    by_rule = {e.recipe: e for e in found.values()}
    assert (by_rule[deadly].status, by_rule[deadly].seconds) == (Status.LOST, 1.0)
    assert "died" in by_rule[deadly].error
    assert [e for e in executor.groups if deadly in e] == [groups[1], (deadly,)]
    for rule in set(groups[1]) - {deadly}:
        assert (rule,) in executor.groups
        assert by_rule[rule] == invented(rule)


# --- told or cancelled ----------------------------------------------------------------------------


class Listed(Searcher):
    """Asks for the candidates that it is given, and notes what it hears of them."""

    def __init__(self, candidates, obsolete_after=None) -> None:
        super().__init__(PAPER, len(candidates))
        self.left, self.obsolete_after = list(candidates), obsolete_after
        self.asked, self.heard, self.cancelled = [], {}, []

    def ask(self, n):
        asked, self.left = self.left[:n], self.left[n:]
        self.asked += asked
        return asked

    def tell(self, candidate, outcome) -> None:
        assert candidate.key not in self.heard
        self.heard[candidate.key] = outcome

    def obsolete(self, candidate) -> bool:
        late = self.obsolete_after is not None and len(self.heard) >= self.obsolete_after
        return late and candidate.phase == "early"

    def cancel(self, candidate) -> None:
        self.cancelled.append(candidate)


def listed(*texts, **changes):
    return [Candidate(f"{i} {t}", Rule.parse(t), **changes) for i, t in enumerate(texts)]


def check_accounts(searcher):
    assert [c for c in searcher.asked if c.key in searcher.heard or c in searcher.cancelled] == (
        searcher.asked
    )
    assert not [c for c in searcher.cancelled if c.key in searcher.heard]


def test_the_same_rule_is_evaluated_again_at_another_fidelity_block_or_rate():
    again = [
        Candidate("full", Rule.parse("m1")),
        Candidate("twice", Rule.parse("m1")),
        Candidate("short", Rule.parse("m1"), fidelity=0.5),
        Candidate("block", Rule.parse("m1"), block=1),
        Candidate("rate", Rule.parse("m1"), lr=0.1),
        Candidate("rate again", Rule.parse("m1"), lr=0.1),
    ]
    searcher, executor = Listed(again), Shuffling(2)
    run(executor, searcher=searcher)
    kinds = {name: outcome.kind for (name, _), outcome in searcher.heard.items()}
    assert {name for name, kind in kinds.items() if kind == "duplicate"} == {"twice", "rate again"}
    asked = sorted((j.fidelity, j.block, j.lrs[0] or 0.0, j.recipes) for j in executor.jobs)
    rule = ("m1",)
    assert asked == [(0.5, 0, 0.0, rule), (1.0, 0, 0.0, rule), (1.0, 0, 0.1, rule),
                     (1.0, 1, 0.0, rule)]  # fmt: skip


def test_only_candidates_that_are_evaluated_alike_share_a_job():
    mixed = [
        Candidate(str(i), Rule.parse(f"{i + 1}*m1 + g"), fidelity=(0.5, 1.0)[i % 2])
        for i in range(8)
    ]
    executor = Shuffling(1)
    run(executor, searcher=Listed(mixed))
    assert [(job.fidelity, len(job.recipes)) for job in executor.jobs] == [(0.5, 2), (1.0, 2)] * 2


def test_an_outcome_carries_the_evaluation_and_so_does_that_of_a_duplicate():
    searcher = Listed(listed("m1 + g", "g + m1", "ld"))
    run(Shuffling(1), searcher=searcher)
    first, second, third = searcher.heard.values()
    assert first.evaluation == invented("m1 + g")
    assert (second.kind, second.evaluation) == ("duplicate", first.evaluation)
    assert (third.kind, third.evaluation) == ("refused", None)
    assert third.reason == "does not depend on the gradient"


def test_what_is_obsolete_is_cancelled_and_its_duplicate_evaluated_instead():
    early = listed("m1", "g", "g + m1", "ld", phase="early")
    late = [Candidate("late", Rule.parse("g")), Candidate("later", Rule.parse("g"))]
    searcher, executor = Listed([*early, *late], obsolete_after=1), Shuffling(2)
    run(executor, searcher=searcher)
    check_accounts(searcher)
    assert searcher.cancelled == early[1:]
    assert {name: o.kind for (name, _), o in searcher.heard.items()} == {
        "0 m1": searcher.heard["0 m1", 1.0].kind,
        "late": searcher.heard["late", 1.0].kind,
        "later": "duplicate",
    }
    assert searcher.heard["late", 1.0].evaluation == invented("g")


def test_an_interrupt_cancels_all_that_is_outstanding():
    class Interrupting(Shuffling):
        def wait(self, timeout=None):
            if len(self.jobs) > 6:
                raise KeyboardInterrupt
            return super().wait(timeout)

    searcher = Listed(listed(*(f"{i + 1}*m1 + g" for i in range(20)), "ld"))
    with pytest.raises(KeyboardInterrupt):
        run(Interrupting(1), group=2, searcher=searcher)
    check_accounts(searcher)
    assert searcher.cancelled
    assert searcher.heard


def test_rungs_run_through_the_same_path():
    found = []
    for workers in (1, 4):
        options = RandomSearch.Options(rungs="0.25,1")
        searcher, executor = RandomSearch(PAPER, 20, 3, options=options), Shuffling(workers)
        recorded, _ = run(executor, searcher=searcher)
        found.append((recorded, sorted(executor.groups)))
    assert found[0] == found[1]
    by_fidelity = {f: [k for k in found[0][0] if k[1] == f] for f in (0.25, 1.0)}
    assert len(by_fidelity[1.0]) == 5
    assert {name for name, _ in by_fidelity[1.0]} < {name for name, _ in by_fidelity[0.25]}


def test_a_searcher_that_could_use_any_number_is_not_asked_for_all_at_once(monkeypatch):
    monkeypatch.setattr("optsmith.study._runner.MOST_AHEAD", 8)
    searcher, executor = Listed(listed(*(f"{i + 1}*m1 + g" for i in range(30)))), Shuffling(2)
    ahead = []
    ask = searcher.ask
    searcher.ask = lambda n: ahead.append(len(searcher.asked) - len(searcher.heard)) or ask(n)
    run(executor, searcher=searcher)
    assert max(ahead) <= 8
    assert {len(group) for group in executor.groups[:-1]} == {4}
    check_accounts(searcher)


# --- failures of the task and of the machine ------------------------------------------------------


def failing(*rules):
    """Return an evaluation function that fails for some rules; none named: for all."""

    def evaluate(rule, fidelity):
        if not rules or rule in rules:
            return Evaluation(
                rule, Status.FAILED, error=f"ValueError: not {rule}", traceback=f"T of {rule}"
            )
        return Evaluation(rule, Status.OK, score=1.0, lr=0.1)

    return evaluate


RULES = [f"{i + 2}*m1 + g" for i in range(8)]


def run_listed(evaluate, rules=RULES, workers=2, seed=0):
    """Return what was recorded and told before the search ended, and what ended it."""
    searcher, notes = Listed(listed(*rules)), Notes()
    runner = Runner(
        searcher,
        Screen(),
        lambda s: s.fingerprint,
        Shuffling(workers, seed, evaluate=evaluate),
        1,
        notes,
        guard=Guard("mine"),
    )
    error = None
    try:
        runner.run()
    except (TaskFailure, StudyError) as caught:
        error = caught
    check_accounts(searcher)
    return {e.recipe: e.status for e in notes.recorded.values()}, searcher.heard, error


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_errors_in_all_of_the_first_four_candidates_are_the_task_s(workers):
    recorded, heard, error = run_listed(failing(*RULES[:4]), workers=workers)
    assert isinstance(error, TaskFailure)
    assert str(error) == (
        f"the task mine does not run: ValueError: not {RULES[0]}"
        " (in all of the first 4 evaluations)"
    )
    assert error.traceback == f"T of {RULES[0]}"
    assert isinstance(error.__cause__, RemoteTraceback)
    assert str(error.__cause__) == f"\n{error.traceback}"
    assert len(heard) == 3
    assert set(recorded.values()) <= {Status.OK}  # so that a corrected task is evaluated again


@pytest.mark.parametrize("good", range(4))
def test_errors_in_only_some_of_the_first_four_are_the_rules_own(good):
    bad = [rule for i, rule in enumerate(RULES) if i != good]
    recorded, heard, error = run_listed(failing(*bad))
    assert error is None
    assert len(heard) == len(RULES)
    assert recorded == {rule: Status.FAILED if rule in bad else Status.OK for rule in RULES}


def test_errors_in_all_of_fewer_candidates_are_the_task_s_too():
    recorded, heard, error = run_listed(failing(), RULES[:3])
    assert str(error).endswith("(in all evaluations)")
    assert (recorded, len(heard)) == ({}, 3)


@pytest.mark.parametrize("seed", range(3))
def test_an_error_under_plain_descent_is_the_task_s_at_any_time(seed):
    rules = [*RULES[:6], "g", RULES[6]]
    recorded, heard, error = run_listed(failing("g"), rules, seed=seed)
    assert str(error) == (
        "the task mine does not run: ValueError: not g (under plain gradient descent)"
    )
    assert len(heard) == 6
    assert "g" not in recorded
    assert set(RULES[:6]) <= set(recorded)


def losing(*rules):
    def evaluate(rule, fidelity):
        if rule in rules:
            return Evaluation(rule, Status.LOST, error="MemoryError")
        return Evaluation(rule, Status.OK, score=1.0, lr=0.1)

    return evaluate


def test_lost_evaluations_have_no_score_and_the_search_goes_on():
    _, heard, error = run_listed(losing(*RULES[:3], *RULES[4:7]))
    assert error is None
    kinds = [heard[f"{i} {rule}", 1.0].kind for i, rule in enumerate(RULES)]
    assert kinds == ["lost"] * 3 + ["accepted"] + ["lost"] * 3 + ["accepted"]
    assert all(outcome.score is None for outcome in heard.values() if outcome.kind == "lost")


def test_four_lost_in_a_row_end_the_search_with_advice():
    _, heard, error = run_listed(losing(*RULES[2:]))
    assert len(heard) == 5
    assert not isinstance(error, TaskFailure)
    assert str(error) == (
        "4 evaluations in a row were lost, the last because: MemoryError; if there is too little"
        " memory, use fewer --workers or --stack 1; the same command resumes the search and"
        " evaluates them again"
    )


def test_lost_evaluations_are_not_errors_of_the_task():
    def mixed(rule, fidelity):
        return losing(*RULES[:2])(rule, fidelity) if rule in RULES[:2] else failing()(rule, 1.0)

    _, heard, error = run_listed(mixed)
    assert isinstance(error, TaskFailure)
    assert f"not {RULES[2]} " in str(error)
    assert len(heard) == 5
