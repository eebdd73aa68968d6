"""Known rules as the first candidates of a search, and rungs after its last draw."""

from __future__ import annotations

import pytest

from optsmith import Rule, spaces, zoo
from optsmith.searchers import MonteCarloTree, Outcome, Start, searchers
from optsmith.testing import check_searcher

PAPER = spaces["paper"]
DRAWING = ("mct", "random", "uct")


def given(text, lr=None):
    return Start(text, Rule.parse(text), lr, origin="given")


def opponent(text):
    return Start(text, Rule.parse(text), 0.1, 0.5, 0.1)


ZOO = [Start(name, entry.rule, origin="zoo") for name, entry in zoo.items()]
STARTS = [given("g + sm1"), opponent("cd*m1"), opponent("cd*(g + 0.9*m1)"), opponent("Adam"), *ZOO]


def made(name, budget, starts, seed=0, **options):
    kind = searchers[name]
    searcher = kind(PAPER, budget, seed, options=kind.Options(**options))
    searcher.begin(starts)
    return searcher


def by_length(candidate):
    return Outcome("accepted", str(candidate.rule), float(candidate.rule.length))


def drive(searcher, outcomes=by_length):
    told = []
    while asked := searcher.ask(1):
        for candidate in asked:
            searcher.tell(candidate, outcomes(candidate))
            told.append(candidate)
    return told


@pytest.mark.parametrize("name", DRAWING)
def test_known_rules_come_first_up_to_a_quarter_of_the_budget(name):
    told = drive(made(name, 24, STARTS))
    starts = [str(c.rule) for c in told if c.phase == "starting points"]
    assert [str(c.rule) for c in told[:6]] == starts
    # 0.9 is not in the space; then the zoo, in its order.
    assert starts == ["g + sm1", "cd*m1", "Adam", *(zoo[f"mnist{i}"].text for i in (1, 2, 3))]
    assert [c.id for c in told[:6]] == [f"start:{i}" for i in range(6)]
    assert len(told) == 24


@pytest.mark.parametrize("name", DRAWING)
def test_all_rules_of_the_user_are_tried_as_far_as_the_budget_goes(name):
    rules = [given(t) for t in ("g", "m1", "sm1", "sg", "Adam", "g")]
    told = drive(made(name, 8, [*rules, *ZOO]))
    assert [str(c.rule) for c in told[:5]] == ["g", "m1", "sm1", "sg", "Adam"]
    assert sum(c.phase == "starting points" for c in told) == 5
    assert len(told) == 8
    few = drive(made(name, 3, rules))
    assert [str(c.rule) for c in few] == ["g", "m1", "sm1"]


@pytest.mark.parametrize("name", DRAWING)
def test_without_known_rules_nothing_changes(name):
    assert drive(made(name, 12, [])) == drive(searchers[name](PAPER, 12))


@pytest.mark.parametrize("rungs", ["1", "0.3,1"])
@pytest.mark.parametrize("name", DRAWING)
def test_searchers_keep_their_contract_with_known_rules_and_rungs(name, rungs):
    check_searcher(lambda budget, seed: made(name, budget, STARTS, seed, rungs=rungs))


@pytest.mark.parametrize("name", DRAWING)
def test_known_rules_that_are_refused_leave_their_budget(name):
    def outcome(candidate):
        if candidate.phase == "starting points":
            return Outcome("refused", reason="known")
        return by_length(candidate)

    told = drive(made(name, 16, STARTS), outcome)
    assert sum(outcome(c).accepted for c in told) == 16


def test_their_scores_count_for_the_children_above_them_at_every_level():
    searcher = MonteCarloTree(PAPER, 16, options=MonteCarloTree.Options(levels=3))
    searcher.begin([given("cd*(g + m1)"), given("cd*sm1")])

    def outcome(candidate):
        if candidate.phase == "starting points":
            return Outcome("accepted", candidate.id, 0.0)
        return Outcome("accepted", candidate.id, 1.0)

    drive(searcher, outcome)
    assert [str(d.node) for d in searcher.decisions] == ["?", "?*?", "cd*?"]
    by_operator = {c.node.operators[-1].name: c for c in searcher.decisions[2].children}
    assert by_operator["add"].score < 1.0  # a draw cannot score that
    assert [d.accepted for d in searcher.decisions] == [5, 5, 4]  # what is left of 16


def test_rungs_of_the_tree_search_promote_the_best_of_all_levels():
    options = MonteCarloTree.Options(levels=2, rungs="0.5,1")
    searcher = MonteCarloTree(PAPER, 8, options=options)
    told = drive(searcher)
    short, full = ([c for c in told if c.fidelity == f] for f in (0.5, 1.0))
    assert [c.phase for c in short] == ["level 1"] * 4 + ["level 2"] * 4
    assert [c.phase for c in full] == ["rung 100 %"] * 4
    ranked = sorted(short, key=lambda c: c.rule.length)
    assert [c.id for c in full] == [c.id for c in ranked[:4]]
    assert searcher.log[-1] == "rung 50 %: 4 promoted to rung 100 %"
    assert searcher.describe() == "rung 100 %"
