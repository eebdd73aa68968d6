"""The tree search against cases worked out by hand, and the contract of both searchers."""

from __future__ import annotations

import pytest

from optsmith import OptsmithError, Space, operators, spaces
from optsmith.searchers import MonteCarloTree, Outcome, random_search, searchers
from optsmith.searchers import _base as base
from optsmith.testing import check_searcher

SMALL = Space([operators[n] for n in ("neg", "add", "g", "m1")], max_depth=4, name="small")


def drive(searcher, outcomes):
    """Tell each candidate what `outcomes` makes of it; return the candidates."""
    told = []
    while (candidate := searcher.ask()) is not None:
        searcher.tell(candidate, outcomes(candidate))
        told.append(candidate)
    return told


def first(candidate):
    return candidate.node.operators[-1].name


def test_a_level_goes_to_the_child_with_the_best_mean():
    # Rules that begin with a sum score 1 and 3, negations 1.5, inputs 0: the best mean of those
    # that can be descended to is the negations', though a sum has the best single score.
    scores = {"add": [1.0, 3.0], "neg": [1.5], "g": [0.0], "m1": [0.0]}
    seen = dict.fromkeys(scores, 0)

    def outcome(candidate):
        name = first(candidate)
        values = scores[name]
        if candidate.level or seen[name] == len(values):
            return Outcome("refused", reason="enough of these")
        seen[name] += 1
        return Outcome("accepted", str(candidate.rule) + name + str(seen), values[seen[name] - 1])

    searcher = MonteCarloTree(SMALL, budget=10, seed=3, levels=2)  # five accepted at the first
    candidates = drive(searcher, outcome)
    decision = searcher.decisions[0]
    assert {first_of(c.node): (c.score, c.count) for c in decision.children} == {
        "neg": (1.5, 1),
        "add": (2.0, 2),
        "g": (0.0, 1),
        "m1": (0.0, 1),
    }
    assert str(decision.chosen) == "-?"
    assert decision.ended == "5 accepted"
    assert all(str(c.rule).startswith("-") for c in candidates if c.level == 1)
    assert {c.level for c in candidates} == {0, 1}


def first_of(node):
    return node.operators[-1].name


def test_larger_is_better_when_told_so():
    def outcome(candidate):
        return Outcome("accepted", str(candidate.id), 2.0 if first(candidate) == "add" else 1.0)

    searcher = MonteCarloTree(SMALL, budget=20, seed=0, direction="maximize", levels=2)
    drive(searcher, outcome)
    assert str(searcher.decisions[0].chosen) == "? + ?"


def test_a_known_rule_registers_its_score_once_a_level_for_its_child_and_costs_nothing():
    searcher = MonteCarloTree(SMALL, budget=2, seed=0, levels=1)
    accepted = iter([5.0, 7.0])
    told = []

    def outcome(candidate):
        told.append(candidate)
        if first(candidate) == "neg":
            return Outcome("duplicate", "known", 1.0)
        if first(candidate) == "add" and len([c for c in told if first(c) == "neg"]) > 2:
            score = next(accepted)
            return Outcome("accepted", f"new {score}", score)
        return Outcome("refused", reason="not now")

    drive(searcher, outcome)
    (decision,) = searcher.decisions
    children = {first_of(c.node): (c.score, c.count) for c in decision.children}
    assert children["neg"] == (1.0, 1)  # drawn more than twice, registered once
    assert children["add"] == (6.0, 2)
    assert decision.accepted == 2


def test_a_duplicate_of_what_was_never_accepted_registers_nothing():
    searcher = MonteCarloTree(SMALL, budget=1, seed=0, levels=1)

    def outcome(candidate):
        if candidate.index < 30:
            return Outcome("duplicate", "bad", None)
        return Outcome("accepted", "good", 1.0)

    drive(searcher, outcome)
    assert sum(child.count for child in searcher.decisions[0].children) == 1


def test_where_all_children_are_leaves_the_search_stays():
    space = Space([operators[n] for n in ("g", "m1")], max_depth=3, name="leaves")
    searcher = MonteCarloTree(space, budget=4, levels=2)
    drive(searcher, lambda c: Outcome("accepted", str(c.id), 1.0))
    assert [d.chosen for d in searcher.decisions] == [None, None]
    assert [str(d.node) for d in searcher.decisions] == ["?", "?"]


def test_a_level_ends_at_its_most_draws(monkeypatch):
    searcher = MonteCarloTree(SMALL, budget=2, levels=2, draws=9)
    told = drive(searcher, lambda c: Outcome("refused", reason="always"))
    assert [c.id for c in told] == [(level, i) for level in (0, 1) for i in range(9)]
    assert [d.ended for d in searcher.decisions] == ["9 draws"] * 2


def test_a_search_ends_at_its_most_evaluations():
    searcher = MonteCarloTree(SMALL, budget=4, levels=2)
    told = drive(searcher, lambda c: Outcome("failed", str(c.id)))
    assert len(told) == 14  # 3.5 for each of the budget
    assert [d.ended for d in searcher.decisions] == ["no evaluations left"]
    assert searcher.need == 0


@pytest.mark.parametrize("make", [MonteCarloTree, random_search])
def test_every_evaluation_counts_when_told_so(make):
    def outcome(candidate):
        if candidate.index % 2:
            return Outcome("refused", reason="now and then")
        kind = "accepted" if candidate.index % 4 else "rejected"
        return Outcome(kind, str(candidate.id), 1.0 if kind == "accepted" else None)

    searcher = make(SMALL, budget=12, levels=2, count_all=True)
    drive(searcher, outcome)
    assert sum(d.accepted for d in searcher.decisions) == 6
    assert {d.ended for d in searcher.decisions} <= {"6 evaluated", "12 evaluated"}
    accepting = make(SMALL, budget=12, levels=2)
    drive(accepting, outcome)
    assert sum(d.accepted for d in accepting.decisions) == 12


def test_draws_are_the_candidate_s_own():
    """What was told of one candidate does not move the next."""
    one = MonteCarloTree(spaces["paper"], budget=100, seed=4)
    two = MonteCarloTree(spaces["paper"], budget=100, seed=4)
    for _ in range(20):
        a, b = one.ask(), two.ask()
        assert a == b
        one.tell(a, Outcome("refused", reason="no"))
        two.tell(b, Outcome("accepted", str(b.id), 1.0))


def test_random_search_never_leaves_the_root():
    searcher = random_search(SMALL, budget=12)
    told = drive(searcher, lambda c: Outcome("accepted", str(c.id), float(c.rule.length)))
    assert len(told) == 12
    assert {c.level for c in told} == {0}
    assert searcher.decisions[0].chosen is None


@pytest.mark.parametrize("name", searchers)
def test_searchers_keep_their_contract(name):
    check_searcher(lambda budget, seed: searchers[name](spaces["paper"], budget, seed))


@pytest.mark.parametrize("settings", [{"budget": 0}, {"budget": 4, "levels": 0}])
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(OptsmithError, match="at least 1"):
        MonteCarloTree(SMALL, **settings)


def test_generators_differ_by_level_and_index():
    numbers = {base.generator(0, level, i).random() for level in range(20) for i in range(20)}
    assert len(numbers) == 400
