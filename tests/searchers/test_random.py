"""Random search, with and without rungs."""

from __future__ import annotations

import pytest

from optsmith import OptsmithError, Space, operators, spaces
from optsmith.searchers import MonteCarloTree, Outcome, RandomSearch, searchers

SMALL = Space([operators[n] for n in ("neg", "add", "g", "m1")], max_depth=4, name="small")


def make(budget, space=SMALL, seed=0, direction="minimize", **options):
    return RandomSearch(space, budget, seed, direction, RandomSearch.Options(**options))


def drive(searcher, outcomes, n=1):
    told = []
    while asked := searcher.ask(min(n, searcher.need) or 1):
        for candidate in asked:
            searcher.tell(candidate, outcomes(candidate))
            told.append(candidate)
    return told


def by_index(candidate):
    return Outcome("accepted", candidate.key, float(candidate.id.partition(":")[2]))


def test_it_draws_as_the_tree_search_does_at_the_root():
    tree = MonteCarloTree(spaces["paper"], 400, 5)
    assert [c.rule for c in make(400, spaces["paper"], 5).ask(50)] == [c.rule for c in tree.ask(50)]


def test_without_rungs_it_accepts_its_budget_at_full_length():
    searcher = make(12)
    told = drive(searcher, by_index)
    assert len(told) == 12
    assert {(c.fidelity, c.phase) for c in told} == {(1.0, "")}
    assert (searcher.spent, searcher.need, searcher.log) == (12, 0, [])


@pytest.mark.parametrize("name", ["mct", "random"])
def test_every_evaluation_counts_when_told_so(name):
    def outcome(candidate):
        index = int(candidate.id.partition(" ")[0].partition(":")[2])
        if index % 2:
            return Outcome("refused", reason="now and then")
        kind = "accepted" if index % 4 else "rejected"
        return Outcome(kind, candidate.id, 1.0 if kind == "accepted" else None)

    kind = searchers[name]
    for count_all, evaluated in ((True, 12), (False, 24)):
        options = {"count_all": count_all} | ({"levels": 1} if name == "mct" else {})
        searcher = kind(SMALL, 12, options=kind.Options(**options))
        told = drive(searcher, outcome)
        assert sum(outcome(c).evaluated for c in told) == evaluated
        assert searcher.spent == 12


def test_it_ends_at_its_most_draws():
    assert len(drive(make(4, draws=9), lambda c: Outcome("refused", reason="always"))) == 9


def test_rungs_promote_the_best_to_longer_runs():
    searcher = make(30, rungs="0.1,0.3,1")
    told = drive(searcher, by_index, n=5)
    ids = {f: [c.id for c in told if c.fidelity == f] for f in (0.1, 0.3, 1.0)}
    assert ids[0.1] == [f"0:{i}" for i in range(30)]
    assert ids[0.3] == [f"0:{i}" for i in range(10)]
    assert ids[1.0] == [f"0:{i}" for i in range(3)]
    assert [c.phase for c in told[::20]] == ["rung 10 %", "rung 10 %", "rung 100 %"]
    assert searcher.log == [
        "rung 10 %: 10 promoted to rung 30 %",
        "rung 30 %: 3 promoted to rung 100 %",
    ]


def test_it_knows_how_far_it_is():
    searcher, seen = make(2, rungs="0.5,1", draws=10), []
    for _ in range(6):
        (candidate,) = searcher.ask(1)
        kind = "refused" if candidate.id in ("0:0", "0:1", "0:2") else "accepted"
        searcher.tell(candidate, Outcome(kind, candidate.id, 1.0))
        seen.append(searcher.done)
    assert seen == [0.05, 0.1, 0.15, 0.25, 0.5, 1.0]


def test_what_is_not_accepted_is_not_promoted():
    def outcome(candidate):
        index = int(candidate.id.partition(":")[2])
        if candidate.fidelity == 0.5 and index % 2:
            return Outcome(("early_stopped", "duplicate")[index % 4 // 2], candidate.id, 0.0)
        return Outcome("accepted", candidate.id, float(-index))

    told = drive(make(8, rungs="0.5,1", direction="minimize"), outcome)
    assert [c.id for c in told if c.fidelity == 1] == ["0:14", "0:12", "0:10", "0:8"]


def test_a_rung_with_nothing_to_promote_ends_the_search():
    searcher = make(4, rungs="0.1,0.3,1")
    told = drive(searcher, lambda c: Outcome("failed", c.id))
    assert {c.fidelity for c in told} == {0.1}
    assert searcher.need == 0


def test_a_draw_that_a_rung_left_over_is_obsolete():
    searcher = make(1, rungs="0.5,1")
    wanted, left = searcher.ask(2)
    searcher.tell(wanted, Outcome("accepted", wanted.id, 1.0))
    assert searcher.obsolete(left)
    (promoted,) = searcher.ask(5)
    assert promoted.rule == wanted.rule
    assert not searcher.obsolete(promoted)


@pytest.mark.parametrize("rungs", ["", "1,1", "0.5", "0.3,0.1,1", "0,1", "x", "0.1,2"])
def test_rungs_that_make_no_sense_are_refused(rungs):
    with pytest.raises(OptsmithError, match=r"such as 0\.1,0\.3,1"):
        RandomSearch.Options(rungs=rungs)
