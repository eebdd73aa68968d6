import itertools
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from optsmith import Constraint, Rule, RuleError, Space, SpaceError, operators, spaces, zoo
from optsmith.rules import MODERN, PAPER, number
from optsmith.space import PAPER_CONSTRAINTS, Partial

ARITY = {
    **dict.fromkeys(
        [
            "g",
            "g2",
            "g3",
            "m1",
            "m2",
            "m3",
            "sg",
            "sm1",
            "Adam",
            "RMSprop",
            "1",
            "2",
            "ld",
            "cd",
            "rd",
        ],
        0,
    ),
    **dict.fromkeys(["neg", "exp", "log", "sqrt", "clip", "drop", "sign"], 1),
    **dict.fromkeys(["add", "sub", "mul", "div", "pow"], 2),
}
FORBIDDEN = {
    "log": {"exp"},
    "neg": {"neg"},
    "sign": {"sign", "sm1", "sg", "clip", "1", "2", "ld", "cd", "rd"},
    "sqrt": {"sign", "1"},
    "clip": {"clip", "1", "2", "ld", "cd", "rd"},
}
NAMES = {"paper": set(ARITY), "convnet": set(ARITY) - {"g3", "m3", "Adam", "RMSprop"}}


def named(*names):
    return tuple(operators[n] if n in operators else number(float(n)) for n in names)


def names_of(rule):
    return tuple(o.name for o in rule.operators)


def pairs(names):
    """Yield (parent, child) for every node of a tree in prefix order."""
    waiting = [None]
    for name in names:
        yield waiting.pop(), name
        waiting += [name] * ARITY[name]
    assert not waiting


def obeys(names):
    return all(child not in FORBIDDEN.get(parent, ()) for parent, child in pairs(names))


def all_trees(length, names):
    """Return every expression tree of exactly `length` operators, constrained or not."""
    if length == 1:
        return [(n,) for n in names if ARITY[n] == 0]
    trees = [(n, *x) for n in names if ARITY[n] == 1 for x in all_trees(length - 1, names)]
    for left in range(1, length - 1):
        both = itertools.product(all_trees(left, names), all_trees(length - 1 - left, names))
        operands = [x + y for x, y in both]
        trees += [(n, *xy) for n in names if ARITY[n] == 2 for xy in operands]
    return trees


# --- counting and enumeration -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper", "convnet"])
def test_enumeration_is_complete_and_matches_the_counts(name):
    space = spaces[name]
    assert {o.name for o in space.operators} == NAMES[name]
    found = [names_of(rule) for rule in space.enumerate(4)]
    assert len(set(found)) == len(found)
    assert [len(names) for names in found] == sorted(len(names) for names in found)
    expected = {t for n in range(1, 5) for t in all_trees(n, sorted(NAMES[name])) if obeys(t)}
    assert set(found) == expected
    counts = Counter(map(len, found))
    assert [space.count(n) for n in range(1, 5)] == [counts[n] for n in range(1, 5)]


def test_counts_of_the_paper():
    paper = spaces["paper"]
    assert [paper.count(n) for n in range(1, 5)] == [15, 92, 1703, 25240]
    counts = [paper.count(n) for n in range(1, 11)]
    assert counts == sorted(counts)
    assert counts[-1] > 10**11
    assert [paper.count(n) for n in (-1, 0, 11, 1000)] == [0] * 4


def independent_count(length, parent=None):
    """Return the count by dynamic programming on the test's own table."""
    table = {}

    def count(parent, n):
        key = (parent, n)
        if key not in table:
            total = 0
            for name, arity in ARITY.items():
                if name in FORBIDDEN.get(parent, ()):
                    continue
                if arity == 0:
                    total += n == 1
                elif arity == 1 and n > 1:
                    total += count(name, n - 1)
                elif arity == 2:
                    total += sum(count(name, i) * count(name, n - 1 - i) for i in range(1, n - 1))
            table[key] = total
        return table[key]

    return count(parent, length)


@pytest.mark.parametrize("length", range(1, 11))
def test_counts_to_the_maximum_depth(length):
    assert spaces["paper"].count(length) == independent_count(length)


def test_enumeration_stops_at_max_depth():
    shallow = Space(PAPER, PAPER_CONSTRAINTS, max_depth=2)
    assert len(list(shallow.enumerate(10))) == 107
    assert list(shallow.enumerate(0)) == []
    assert shallow.count(3) == 0


# --- the super-tree ---------------------------------------------------------------------------


def leaves(space, node):
    if node.is_complete:
        yield node.rule
    for child in space.children(node):
        assert child.operators[:-1] == node.operators
        yield from leaves(space, child)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_walking_children_reaches_the_enumerated_rules(depth):
    space = Space(PAPER, PAPER_CONSTRAINTS, max_depth=depth)
    reached = list(leaves(space, space.root))
    assert len(set(reached)) == len(reached)
    assert set(reached) == set(space.enumerate(depth))


def test_every_child_can_be_completed():
    space = Space(named("neg", "add", "g"), max_depth=4)

    def nodes(node):
        yield node
        for child in space.children(node):
            yield from nodes(child)

    for node in nodes(space.root):
        assert len(node.operators) + node.open <= space.max_depth
        if not node.is_complete:
            assert space.children(node)


def test_children_that_constraints_make_impossible_are_left_out():
    # Only neg is allowed under sign, so sign needs two operators below it.
    space = Space(named("sign", "neg", "g"), [Constraint("sign", {"g", "sign"}, "")], max_depth=2)
    assert {r.length for r in space.enumerate(2)} == {1, 2}
    reached = {child.operators for child in space.children(space.root)}
    assert reached == {named("neg"), named("g")}


class FewDraws:
    """A generator that raises after many draws, instead of an endless loop."""

    def __init__(self, seed=0):
        self.rng, self.left = random.Random(seed), 20_000

    def random(self):
        self.left -= 1
        if not self.left:
            pytest.fail("unroll goes on for ever")
        return self.rng.random()


def test_unroll_of_an_impossible_node_is_an_error():
    space = Space(named("sign", "neg", "g"), [Constraint("sign", {"g", "sign"}, "")], max_depth=2)
    with pytest.raises(SpaceError):
        space.unroll(Partial(named("sign")), FewDraws())


def test_a_space_without_rules_is_an_error():
    with pytest.raises(SpaceError):
        Space(
            named("neg", "g"), [Constraint("neg", {"g"}, ""), Constraint(None, {"g"}, "")]
        ).sample(FewDraws())


def test_partial():
    root = spaces["paper"].root
    assert (str(root), root.open, root.is_complete) == ("?", 1, False)
    node = Partial(named("add", "sign"))
    assert (str(node), node.open, node.is_complete) == ("sign(?) + ?", 2, False)
    assert str(Partial(named("pow", "g", "neg"))) == "g^-?"
    assert str(Partial(named("log"))) == "log(|?|)"
    done = Partial(named("add", "g", "m1"))
    assert (str(done), done.is_complete, done.rule) == ("g + m1", True, Rule.parse("g + m1"))
    assert spaces["paper"].children(done) == ()
    with pytest.raises(RuleError):
        _ = node.rule


# --- sampling -----------------------------------------------------------------------------------


def probabilities(space_names, depth, start=()):
    """Return the exact probability of each completion: 1/allowed per step, then renormalised."""
    found = {}

    def extend(names, waiting, chance):
        if not waiting:
            found[names] = chance
            return
        if len(names) == depth:
            return
        allowed = [n for n in space_names if n not in FORBIDDEN.get(waiting[-1], ())]
        for n in allowed:
            extend((*names, n), waiting[:-1] + [n] * ARITY[n], chance / len(allowed))

    waiting = [None]
    for n in start:
        waiting = waiting[:-1] + [n] * ARITY[n]
    extend(tuple(start), waiting, Fraction(1))
    total = sum(found.values())
    return {names: chance / total for names, chance in found.items()}


@pytest.mark.parametrize(
    ("depth", "start"),
    [(3, ()), (1, ()), (4, ("neg",)), (4, ("add", "sign")), (5, ("add", "g")), (4, ("sqrt",))],
)
@pytest.mark.parametrize("generator", [random.Random, np.random.default_rng])
def test_unroll_has_the_right_distribution(depth, start, generator):
    chosen = ("neg", "sign", "sqrt", "add", "g", "m1", "1")
    space = Space(named(*chosen), PAPER_CONSTRAINTS, max_depth=depth)
    chances = probabilities(chosen, depth, start)
    draws, rng, node = 50_000, generator(20), Partial(named(*start))
    seen = Counter(names_of(space.unroll(node, rng)) for _ in range(draws))
    assert set(seen) <= set(chances)
    # Pool rare outcomes, so that the test is valid.
    order = sorted(chances, key=chances.get, reverse=True)
    common = [n for n in order if chances[n] * draws >= 10]
    rare = order[len(common) :]
    observed = [seen[n] for n in common] + [sum(seen[n] for n in rare)] * bool(rare)
    expected = [float(chances[n]) * draws for n in common]
    expected += [float(sum(chances[n] for n in rare)) * draws] * bool(rare)
    assert len(common) > 2
    assert chisquare(observed, expected).pvalue > 1e-4


@pytest.mark.parametrize("generator", [random.Random, np.random.default_rng])
@pytest.mark.parametrize("name", ["paper", "convnet"])
def test_samples_obey_the_constraints_and_repeat(name, generator):
    space = spaces[name]
    rng, again = generator(3), generator(3)
    lengths = set()
    for _ in range(3000):
        rule = space.sample(rng)
        assert rule == space.sample(again)
        assert obeys(names_of(rule))
        assert space.contains(rule)
        lengths.add(rule.length)
    assert lengths == set(range(1, 11))


def test_unroll_keeps_the_given_prefix():
    start = Partial(named("mul", "ld", "sign"))
    for seed in range(200):
        rule = spaces["paper"].unroll(start, random.Random(seed))
        assert rule.operators[:3] == start.operators
        assert rule.length <= 10
    done = Partial(named("neg", "g"))
    assert spaces["paper"].unroll(done, random.Random(0)) == Rule.parse("-g")


# --- membership ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "text", "reason"),
    [
        ("paper", "ld*sign(m1) - Adam", ""),
        ("paper", "sign(g)", ""),
        ("paper", "sqrt(sg)", ""),
        ("paper", "sqrt(2)", ""),
        ("paper", "neg(-g)", "forbid neg"),
        ("paper", "log(exp(g))", "forbid exp"),
        ("paper", "exp(log(g))", ""),
        ("paper", "sign(sg)", "forbid sg"),
        ("paper", "sign(2)", "forbid 2"),
        ("paper", "sqrt(sign(g))", "forbid sign"),
        ("paper", "sqrt(1)", "forbid 1"),
        ("paper", "clip(ld)", "forbid ld"),
        ("paper", "g + clip(clip(g))", "forbid clip"),
        ("paper", "|g|", "abs is not an operator"),
        ("paper", "3*g", "3 is not an operator"),
        ("paper", "drop(g, 0.3)", "drop(0.3) is not an operator"),
        ("paper", "g+g+g+g+g+g", "more than 10 operators"),
        ("paper", "-(g+g+g+g+g)", ""),
        ("convnet", "m1 + sign(g)", ""),
        ("convnet", "m3", "m3 is not an operator"),
        ("convnet", "m1 + Adam", "Adam is not an operator"),
        ("convnet", "RMSprop", "RMSprop is not an operator of the space convnet"),
    ],
)
def test_contains_says_why_not(space, text, reason):
    rule = Rule.parse(text)
    assert spaces[space].contains(rule) == (not reason)
    why = spaces[space].why_not(rule)
    assert reason in why
    assert bool(why) == bool(reason)


def test_which_published_rules_are_in_the_space():
    outside = {n for n in zoo if not spaces["paper"].contains(zoo[n].rule)}
    modern = {o.name for o in MODERN}
    with_its_operators = {n for n in zoo if not modern & {o.name for o in zoo[n].rule.operators}}
    assert outside & with_its_operators == {
        *("cola2", "conv2", "conv4"),  # clip(rd); abs
        *("addsign-ld", "addsign-cd"),  # 11 operators as written
        *("nesterov", "lion"),  # 0.9; m1(0.99) and 10
    }
    assert {n for n in zoo if not spaces["modern"].contains(zoo[n].rule)} == {
        *("cola2", "conv2"),  # clip(rd); a forbidden pair
        *("nadam", "radam"),  # too long
    }
    assert "forbid rd" in spaces["paper"].why_not(zoo["cola2"].rule)
    assert "abs" in spaces["paper"].why_not(zoo["conv2"].rule)
    assert "abs" in spaces["paper"].why_not(zoo["conv4"].rule)


# --- user-defined constraints and operators ----------------------------------------------------


def test_a_constraint_on_one_slot():
    space = Space(
        named("div", "g", "1"), [Constraint("div", {"1"}, "x/1 is x", slot=1)], max_depth=3
    )
    found = {str(r) for r in space.enumerate(3)}
    assert found == {"g", "1", "g/g", "1/g"}
    assert "forbid 1" in space.why_not(Rule.parse("g/1"))
    rng = random.Random(0)
    assert {str(space.sample(rng)) for _ in range(200)} == found


def test_a_constraint_on_the_root():
    times = Constraint(None, {"ld", "1", "neg"}, "ascends or ignores the gradient")
    space = Space(named("neg", "mul", "g", "ld", "1"), [times], max_depth=3)
    found = list(space.enumerate(3))
    assert {names_of(r)[0] for r in found} == {"g", "mul"}
    assert len(found) == sum(space.count(n) for n in (1, 2, 3)) == 10
    assert set(leaves(Space(space.operators, [times], 3), Partial(named("mul")))) == set(found[1:])


def test_a_constraint_covers_every_variant():
    variants = (operators["clip"], operators["clip"].variant(0.5), operators["g"])
    space = Space(variants, PAPER_CONSTRAINTS, max_depth=4)
    assert [str(r) for r in space.enumerate(4)] == ["g", "clip(g)", "clip(g, 0.5)"]


def test_constraints_take_any_collection():
    constraint = Constraint("neg", ["neg"], "cancels")
    assert constraint.children == frozenset({"neg"})
    assert constraint == Constraint("neg", frozenset({"neg"}), "cancels")
    assert constraint.forbids("neg", 0, "neg")
    assert not constraint.forbids(None, 0, "neg")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Space(named("g", "neg", "g")), "operator g is in the space twice"),
        (lambda: Space(named("neg", "add")), "at least one input"),
        (lambda: Space(()), "at least one input"),
        (lambda: Space(named("g"), max_depth=0), "max_depth"),
        (
            lambda: Space(named("g", "neg"), [Constraint("neg", {"g", "neg"}, "")]),
            "every operand of neg",
        ),
        (lambda: spaces["convnet"].children(Partial(named("neg", "m3"))), "m3 is not an operator"),
        (lambda: spaces["paper"].children(Partial(named("abs"))), "abs is not an operator"),
        (lambda: spaces["paper"].children(Partial(named("neg", "neg"))), "forbid neg"),
        (lambda: spaces["paper"].children(Partial(named("g", "g"))), "follows a complete rule"),
        (lambda: spaces["paper"].children(Partial(named(*["add"] * 5))), "more than 10"),
        (
            lambda: spaces["paper"].unroll(Partial(named(*["add"] * 10)), random.Random(0)),
            "more than 10",
        ),
        (
            lambda: spaces["convnet"].unroll(Partial(named("neg", "m3")), random.Random(0)),
            "m3 is not an operator",
        ),
    ],
)
def test_errors(build, message):
    with pytest.raises(SpaceError, match=message):
        build()


def test_named_spaces():
    assert {"paper", "convnet"} <= set(spaces)
    assert spaces["paper"].max_depth == spaces["convnet"].max_depth == 10
    assert "27 operators" in repr(spaces["paper"])


def test_it_knows_rules_of_its_functions_and_inputs():
    space = spaces["paper"]
    assert space.knows(Rule.parse("0.3*m1 + ld*(g + sign(m1))"))
    assert not space.knows(Rule.parse("orth(m1)"))
    assert not space.without("sign").knows(Rule.parse("sign(m1)"))
