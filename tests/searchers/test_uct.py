"""The tree search with upper confidence bounds."""

from __future__ import annotations

import math
from itertools import islice

import pytest

from optsmith import OptsmithError, Rule, Space, operators, spaces, zoo
from optsmith.searchers import MonteCarloTree, Outcome, Start, UctSearch, generator
from optsmith.searchers._uct_tree import UctTree
from optsmith.testing import check_searcher

PAPER = spaces["paper"]
SMALL = Space([operators[n] for n in ("neg", "add", "g", "m1")], max_depth=4, name="small")
STARTS = [
    Start("mine", Rule.parse("ld*sign(m1) - Adam"), origin="given"),
    Start("a", Rule.parse("g")),
]

ZOO = [Start(name, entry.rule, origin="zoo") for name, entry in zoo.items()]


def uct(budget, space=SMALL, seed=0, direction="minimize", **options):
    return UctSearch(space, budget, seed, direction, UctSearch.Options(**options))


def drive(searcher, outcomes, n=1, most=10_000):
    """Tell each candidate its outcome, and return the candidates."""
    told = []
    while len(told) < most and (asked := searcher.ask(min(n, searcher.need) or 1)):
        for candidate in asked:
            if not searcher.obsolete(candidate):
                searcher.tell(candidate, outcomes(candidate))
                told.append(candidate)
    return told


def first(candidate):
    """Return the operator at the root of a rule."""
    return candidate.rule.operators[0].name


def accepted(candidate, score=1.0):
    return Outcome("accepted", str(candidate.rule), score)


# --- the contract ---------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"step": 1}, {"step": 5}, {"rungs": "0.3,1"}, {"draws": 50}])
def test_it_keeps_the_contract_whatever_its_options(options):
    given = UctSearch.Options(**options)
    check_searcher(lambda budget, seed: UctSearch(PAPER, budget, seed, options=given))


def test_a_step_does_not_depend_on_the_step_before():
    """So that one step is evaluated while the next is drawn."""
    one, two = uct(1000, PAPER, step=4), uct(1000, PAPER, step=4)
    eager = one.ask(100)
    assert len(eager) == 8  # two steps
    patient = drive(two, accepted, most=8)
    assert patient == eager
    for candidate in eager:
        one.tell(candidate, accepted(candidate))
    assert one.ask(1) == two.ask(1)


# --- where it draws -------------------------------------------------------------------------------


class DeadEnd:
    """Accepts sums, and one of all powers, which is better than any sum."""

    def __init__(self):
        self.seen = {}

    def __call__(self, candidate):
        name, rule = first(candidate), str(candidate.rule)
        if rule in self.seen:
            return Outcome("duplicate", rule, self.seen[rule])
        if name == "add" or rule == "(-1)^g":
            self.seen[rule] = 1.0 if name == "add" else 0.0
            return Outcome("accepted", rule, self.seen[rule])
        return Outcome("refused", reason="another operator")


def test_one_good_score_in_a_dead_end_does_not_hold_it():
    names = {"pow", "add", "neg", "g", "m1", "1"}
    space = Space([o for o in PAPER.operators if o.name in names], max_depth=6, name="dead end")
    stuck = MonteCarloTree(space, 40, options=MonteCarloTree.Options(levels=4, draws=300))
    free = uct(40, space, draws=1200)
    found = {}
    for searcher in (stuck, free):
        found[searcher] = outcomes = DeadEnd()
        searcher.begin([Start("lucky", Rule.parse("(-1)^g"), origin="given")])
        drive(searcher, outcomes)
    assert str(stuck.decisions[0].chosen) == "?^?"
    assert [d.accepted for d in stuck.decisions[1:]] == [0, 0, 0]
    assert len(found[free].seen) == 40  # its budget
    assert len(found[stuck].seen) == 11  # that of a level, and the lucky one


def test_it_draws_most_where_scores_are_best():
    searcher = uct(200, PAPER)
    told = drive(searcher, lambda c: accepted(c, 0.0 if first(c) == "mul" else 1.0))
    below = sum(first(c) == "mul" for c in told)
    assert below > 40  # of 200, among 27 operators
    level, *others = searcher.summary()["decisions"]
    assert level["chosen"] == "?*?"
    assert (level["draws"], level["accepted"]) == (200, 200)
    assert others[0]["draws"] == below
    assert searcher.describe() == f"200 draws, {below} of them below ?*?"


def test_larger_is_better_when_told_so():
    searcher = uct(200, PAPER, direction="maximize")
    drive(searcher, lambda c: accepted(c, 1.0 if first(c) == "mul" else 0.0))
    assert searcher.summary()["decisions"][0]["chosen"] == "?*?"


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_only_the_order_of_scores_counts(scale):
    def outcome(candidate):
        return accepted(candidate, scale * math.sin(hash_of(candidate)))

    usual = drive(uct(40, PAPER), lambda c: accepted(c, math.sin(hash_of(c))))
    assert drive(uct(40, PAPER), outcome) == usual


def hash_of(candidate):
    return sum(map(ord, str(candidate.rule)))


def test_no_rule_is_drawn_twice_and_a_small_space_ends():
    searcher = uct(10_000)
    told = drive(searcher, lambda c: Outcome("refused", reason="never"))
    drawn = [c.rule for c in told]
    assert len(drawn) == len(set(drawn))
    assert set(drawn) == set(SMALL.enumerate(4))
    assert searcher.ask(5) == []


def test_a_score_counts_for_all_nodes_above_it_and_a_function_once():
    tree = UctTree(SMALL, exploration=0.5, widening=1.0)
    rules = [Rule.parse(text) for text in ("g + m1", "m1 + g", "-g")]
    for rule in rules:
        tree.add(rule)
    tree.tell(rules[0], 1.0, "sum", accepted=True)
    tree.tell(rules[1], 1.0, "sum", accepted=False)
    tree.tell(rules[2], 2.0, "minus", accepted=True)
    add = tree.root.children[operators["add"]]
    assert tree.value(add) == pytest.approx(0.75 / 2)  # the better of two scores, in two draws
    assert tree.value(tree.root.children[operators["neg"]]) == pytest.approx(0.25)
    assert tree.value(add.children[operators["g"]]) == pytest.approx(0.75)
    assert tree.value(add.children[operators["m1"]]) == pytest.approx(0.75)


def test_children_are_opened_as_visits_grow():
    def children_after(draws, widening):
        tree = UctTree(PAPER, exploration=0.5, widening=widening)
        for index in range(draws):
            assert tree.draw(generator(0, 0, index)) is not None
        return len([c for c in tree.root.children.values() if not c.exhausted])

    few, more, wide = children_after(16, 1.0), children_after(100, 1.0), children_after(16, 3.0)
    assert few <= 4 < 8 < more <= 10
    assert wide > few


# --- known rules, rungs, limits -------------------------------------------------------------------


def test_known_rules_come_first_and_are_in_the_tree():
    searcher = uct(40, PAPER)
    searcher.begin(STARTS)
    starts = searcher.ask(40)
    assert [(c.id, str(c.rule), c.phase) for c in starts] == [
        ("start:0", "ld*sign(m1) - Adam", "starting points"),
        ("start:1", "g", "starting points"),
    ]
    searcher.tell(starts[0], accepted(starts[0]))
    assert searcher.ask(1) == []  # the first step learns from all of them
    searcher.tell(starts[1], accepted(starts[1]))
    drawn = drive(searcher, accepted)
    assert not {c.rule for c in starts} & {c.rule for c in drawn}
    assert len(drawn) == 38


def test_an_id_is_a_rule_so_that_a_larger_budget_can_continue():
    few, more = uct(40, PAPER), uct(80, PAPER)
    few.begin(ZOO)
    more.begin(ZOO)
    one, two = ({c.id: c.rule for c in drive(s, accepted)} for s in (few, more))
    assert list(one)[:10] == list(two)[:10]  # of the 10 and 20 known rules
    assert all(one[name] == two[name] for name in one.keys() & two.keys())


def test_rungs_promote_the_best_after_all_are_drawn():
    searcher = uct(30, PAPER, rungs="0.1,0.3,1")
    told = drive(searcher, lambda c: accepted(c, hash_of(c)), n=5)
    ids = {f: [c.id for c in told if c.fidelity == f] for f in (0.1, 0.3, 1.0)}
    ranked = [c.id for c in sorted(told[:30], key=hash_of)]
    assert (len(ids[0.1]), ids[0.3], ids[1.0]) == (30, ranked[:10], ranked[:3])


def test_it_ends_at_its_most_draws_and_evaluations():
    assert len(drive(uct(4, draws=9), lambda c: Outcome("refused", reason="always"))) == 9
    assert len(drive(uct(4, PAPER), lambda c: Outcome("failed", c.id))) == 14  # 3.5 x 4
    counted = uct(4, PAPER, count_all=True)
    assert len(drive(counted, lambda c: Outcome("failed", c.id))) == 4
    assert counted.spent == 4


def test_constants_that_are_not_drawn_do_not_end_the_search():
    """A known rule may have numbers of its own in the space `modern`."""
    searcher = uct(60, spaces["modern"])
    texts = [f"{i / 100}*g" for i in range(1, 15)]
    searcher.begin([Start(t, Rule.parse(t), origin="given") for t in texts])
    told = drive(searcher, accepted)
    assert [str(c.rule) for c in islice(told, 14)] == [str(Rule.parse(t)) for t in texts]
    assert len(told) == 60


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"exploration": -0.1}, "exploration must be at least 0, not -0.1"),
        ({"exploration": math.nan}, "exploration must be at least 0, not nan"),
        ({"widening": 0.0}, "widening must be above 0, not 0"),
        ({"step": 0}, "step must be at least 1, not 0"),
        ({"draws": 0}, "draws must be at least 1, not 0"),
        ({"rungs": "0.5"}, "such as 0.1,0.3,1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, says):
    with pytest.raises(OptsmithError, match=says):
        UctSearch.Options(**options)
