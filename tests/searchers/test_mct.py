"""The tree search, compared with cases computed by hand."""

from __future__ import annotations

import pytest

from optsmith import OptsmithError, Space, operators, spaces
from optsmith.searchers import MonteCarloTree, Outcome, generator

SMALL = Space([operators[n] for n in ("neg", "add", "g", "m1")], max_depth=4, name="small")


def tree(space, budget, seed=0, direction="minimize", **options):
    return MonteCarloTree(space, budget, seed, direction, MonteCarloTree.Options(**options))


def drive(searcher, outcomes):
    """Tell each candidate its outcome, and return the candidates."""
    told = []
    while asked := searcher.ask(1):
        (candidate,) = asked
        searcher.tell(candidate, outcomes(candidate))
        told.append(candidate)
    return told


def index(candidate):
    """Return level and index from the start of an id."""
    level, _, number = candidate.id.partition(" ")[0].partition(":")
    return int(level), int(number)


def first(candidate):
    """Return the operator at the root of a rule."""
    return candidate.rule.operators[0].name


def test_a_level_goes_to_the_child_with_the_best_mean():
    # Sums score 1 and 3, negations 1.5, inputs 0. Inputs are complete rules, so negations have the
    # best mean of the children that can be chosen, although a sum has the best single score.
    scores = {"add": [1.0, 3.0], "neg": [1.5], "g": [0.0], "m1": [0.0]}
    seen = dict.fromkeys(scores, 0)

    def outcome(candidate):
        name = first(candidate)
        values = scores[name]
        if index(candidate)[0] or seen[name] == len(values):
            return Outcome("refused", reason="enough of these")
        seen[name] += 1
        return Outcome("accepted", str(candidate.rule) + name + str(seen), values[seen[name] - 1])

    searcher = tree(SMALL, budget=10, seed=3, levels=2)  # five accepted at the first
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
    below = [c for c in candidates if index(c)[0] == 1]
    assert below
    assert all(str(c.rule).startswith("-") for c in below)
    assert {c.phase for c in below} == {"level 2"}
    assert searcher.log[0] == "level 1: 5 accepted; descends to -?"
    assert searcher.summary() == {"decisions": [d.to_json() for d in searcher.decisions]}


def first_of(node):
    return node.operators[-1].name


def test_larger_is_better_when_told_so():
    def outcome(candidate):
        return Outcome("accepted", candidate.id, 2.0 if first(candidate) == "add" else 1.0)

    searcher = tree(SMALL, budget=20, direction="maximize", levels=2)
    drive(searcher, outcome)
    assert str(searcher.decisions[0].chosen) == "? + ?"


def test_a_duplicate_registers_its_score_once_a_level_for_its_child_and_costs_nothing():
    searcher = tree(SMALL, budget=2, levels=1)
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
    searcher = tree(SMALL, budget=1, levels=1)

    def outcome(candidate):
        if index(candidate)[1] < 30:
            return Outcome("duplicate", "bad", None)
        return Outcome("accepted", "good", 1.0)

    drive(searcher, outcome)
    assert sum(child.count for child in searcher.decisions[0].children) == 1


def test_where_all_children_are_leaves_the_search_stays():
    space = Space([operators[n] for n in ("g", "m1")], max_depth=3, name="leaves")
    searcher = tree(space, budget=4, levels=2)
    drive(searcher, lambda c: Outcome("accepted", c.id, 1.0))
    assert [d.chosen for d in searcher.decisions] == [None, None]
    assert [str(d.node) for d in searcher.decisions] == ["?", "?"]


def test_a_level_ends_at_its_most_draws():
    searcher = tree(SMALL, budget=2, levels=2, draws=9)
    told = drive(searcher, lambda c: Outcome("refused", reason="always"))
    assert [index(c) for c in told] == [(level, i) for level in (0, 1) for i in range(9)]
    assert [d.ended for d in searcher.decisions] == ["9 draws"] * 2


def test_it_knows_how_far_it_is_even_if_the_draws_of_a_level_run_out():
    searcher = tree(SMALL, budget=4, levels=2, draws=8)
    refused, seen = Outcome("refused", reason="always"), [searcher.done]
    for outcome in [Outcome("accepted", "a", 1.0)] + [refused] * 7 + [refused] * 4:
        (candidate,) = searcher.ask(1)
        searcher.tell(candidate, outcome)
        seen.append(searcher.done)
    assert (seen[0], seen[1], seen[4]) == (0, 0.25, 0.25)  # one of two is accepted
    assert seen[6] == 6 / 8 / 2  # most draws are used
    assert seen[8] == 0.5
    assert seen[12] == 0.75


def test_a_search_ends_at_its_most_evaluations():
    searcher = tree(SMALL, budget=4, levels=2)
    told = drive(searcher, lambda c: Outcome("failed", c.id))
    assert len(told) == 14  # 3.5 for each of the budget
    assert [d.ended for d in searcher.decisions] == ["no evaluations left"]
    assert searcher.need == 0
    assert searcher.done == 1


def test_draws_are_the_candidate_s_own():
    """The outcome of one candidate does not affect the next draw."""
    one, two = (tree(spaces["paper"], budget=100, seed=4) for _ in range(2))
    for _ in range(20):
        (a,), (b,) = one.ask(1), two.ask(1)
        assert a == b
        one.tell(a, Outcome("refused", reason="no"))
        two.tell(b, Outcome("accepted", b.id, 1.0))


def test_an_id_below_the_root_names_the_node():
    """With a larger budget a level may explore another node; an id must identify one rule."""

    def outcome(good):
        return lambda c: Outcome("accepted", c.id, 0.0 if first(c) == good else 1.0)

    found = {}
    for good in ("add", "neg"):
        searcher = tree(SMALL, budget=40, seed=1, levels=2)
        found[good] = {c.id: str(c.rule) for c in drive(searcher, outcome(good))}
    assert "0:3" in found["add"]
    assert "1:3 ? + ?" in found["add"]
    assert "1:3 -?" in found["neg"]
    both = found["add"].keys() & found["neg"].keys()
    assert all(found["add"][name] == found["neg"][name] for name in both)


def test_it_says_where_it_is():
    searcher = tree(SMALL, budget=20, levels=2)
    assert searcher.describe() == "level 1 of 2, exploring the root"
    for candidate in searcher.ask(10):
        searcher.tell(candidate, Outcome("accepted", candidate.id, 1.0))
    assert searcher.describe().startswith("level 2 of 2, exploring ")
    assert "?" in searcher.describe()
    assert searcher.spent == 10


def test_what_a_level_left_over_is_obsolete():
    searcher = tree(SMALL, budget=2, levels=2)
    wanted, left = searcher.ask(2)
    searcher.tell(wanted, Outcome("accepted", wanted.id, 1.0))
    assert searcher.obsolete(left)
    searcher.cancel(left)
    assert not any(searcher.obsolete(c) for c in searcher.ask(3))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"budget": 0}, "budget must be at least 1, not 0"),
        ({"budget": 4, "levels": 0}, "levels must be at least 1, not 0"),
        ({"budget": 4, "draws": 0}, "draws must be at least 1, not 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, says):
    with pytest.raises(OptsmithError, match=says):
        tree(SMALL, **settings)


def test_generators_differ_by_level_and_index():
    numbers = {generator(0, level, i).random() for level in range(20) for i in range(20)}
    assert len(numbers) == 400
