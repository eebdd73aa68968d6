"""The space `modern`, sampling weights and free constants."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from fractions import Fraction

import pytest
from scipy.stats import chisquare

from optsmith import Constraint, Rule, Screen, Space, SpaceError, operators, spaces, zoo
from optsmith.rules import MODERN, constants, number, with_constants
from optsmith.space import PAPER_CONSTRAINTS, Partial

SPACE = spaces["modern"]


def named(*names):
    return tuple(operators[n] if n in operators else number(float(n)) for n in names)


def pairs(rule):
    """Yield parent, slot and child for every node of a rule; the parent of the root is None."""
    waiting = [(None, 0)]
    for operator in rule.operators:
        yield *waiting.pop(), operator.name
        waiting += [(operator.name, i) for i in reversed(range(operator.arity))]


def forbidden(rule, space):
    return [
        (parent, child)
        for parent, slot, child in pairs(rule)
        if any(c.forbids(parent, slot, child) for c in space.constraints)
    ]


# --- counting, enumeration, tightness -------------------------------------------------------------


def independent_count(length):
    """Return the count by dynamic programming over names, without the space's own slots."""
    variants = Counter(o.name for o in SPACE.operators)
    arity = {o.name: o.arity for o in SPACE.operators}
    banned = {}
    for c in SPACE.constraints:
        for slot in (0, 1) if c.slot is None else (c.slot,):
            banned.setdefault((c.parent, slot), set()).update(c.children)
    table = {}

    def count(parent, slot, n):
        key = (parent, slot, n)
        if key not in table:
            total = 0
            for name, times in variants.items():
                if name in banned.get((parent, slot), ()):
                    continue
                if arity[name] == 0:
                    total += times * (n == 1)
                elif arity[name] == 1 and n > 1:
                    total += times * count(name, 0, n - 1)
                elif arity[name] == 2:
                    total += times * sum(
                        count(name, 0, i) * count(name, 1, n - 1 - i) for i in range(1, n - 1)
                    )
            table[key] = total
        return table[key]

    return count(None, 0, length)


def test_enumeration_matches_the_counts_and_obeys_the_constraints():
    found = list(SPACE.enumerate(3))
    assert len(set(found)) == len(found)
    counts = Counter(rule.length for rule in found)
    for length in (1, 2, 3):
        assert counts[length] == SPACE.count(length) == independent_count(length)
    assert not any(forbidden(rule, SPACE) for rule in found)


@pytest.mark.parametrize("length", [4, 10, SPACE.max_depth])
def test_counts_of_long_rules(length):
    assert SPACE.count(length) == independent_count(length)


def test_walking_children_reaches_the_enumerated_rules():
    space = Space(SPACE.operators, SPACE.constraints, max_depth=2)

    def leaves(node):
        if node.is_complete:
            yield node.rule
        for child in space.children(node):
            yield from leaves(child)

    reached = list(leaves(space.root))
    assert len(set(reached)) == len(reached)
    assert set(reached) == set(space.enumerate(2))


def test_every_child_can_be_completed():
    """The deepest prefixes of binary operators leave room for inputs only."""
    node, rng = SPACE.root, random.Random(0)
    while not node.is_complete:
        children = SPACE.children(node)
        assert children
        assert all(len(c.operators) + c.open <= SPACE.max_depth for c in children)
        widest = max(c.open for c in children)
        node = rng.choice([c for c in children if c.open == widest])
    assert node.rule.length in (SPACE.max_depth - 1, SPACE.max_depth)


def test_constraints_have_reasons_and_names_of_the_space():
    names = {o.name for o in SPACE.operators}
    for constraint in SPACE.constraints:
        assert constraint.reason
        assert constraint.children <= names
        assert constraint.parent is None or constraint.parent in names


@pytest.mark.parametrize(
    "text",
    [
        *("orth(orth(g))", "orth(unit(g))", "unit(orth(g))", "unit(unit(g))", "unit(rows(g))"),
        *("g*rms(unit(g))", "g*rms(orth(g))", "rows(rows(g))", "cols(cols(g))", "rows(unit(g))"),
        *("orth(ld)", "orth(2)", "orth(0.123)", "unit(rms(g))", "g*rms(k)", "whiten(g, fan)"),
        *("ema(2)", "ema(ld)", "g*mom(1)", "prev(cos)", "g*ema(k)", "mom(0.77)"),
        *("hidden(hidden(g, m1), m1)", "hidden(g, hidden(g, m1))"),
        *("g*relu(relu(g))", "g*relu(|g|)", "g*|sqrt(g)|", "whiten(whiten(g, g), g)"),
        *("whiten(g, whitenr(g, g))", "whiten(g, orth(g))", "1*g", "g/1", "g^1", "1^g"),
        *("sign(unit(g))", "sign(exp(g))*g", "drop(drop(g))", "--g", "exp(log(g))*g"),
        *("w", "ld", "2", "rms(g)", "g2", "|g|", "relu(g)"),
    ],
)
def test_forbidden_rules(text):
    assert "forbid" in SPACE.why_not(Rule.parse(text))


# --- what it contains -----------------------------------------------------------------------------

KNOWN = {
    "Muon with AdamW": "ld*(hidden(0.2*fan*orth(mix(g, ema(g, 0.95), 0.05)),"
    " ema(g)/sqrt(ema(g2, 0.999))) + 0.1*w)",
    "Muon with AdamW, two decays": "hidden(ld*(0.2*fan*orth(mix(g, ema(g, 0.95), 0.05)) + 0.1*w),"
    " cd*(ema(g)/sqrt(ema(g2, 0.999)) + 0.1*w))",
    "AdamW": "cd*(ema(g, 0.85)/sqrt(ema(g^2, 0.97)) + 0.01*w)",
    "NAdam": "mix(g, ema(g), 0.1)/sqrt(ema(g2, 0.999))",
    "LAMB": "ld*(rms(w)*unit(ema(g)/sqrt(ema(g2, 0.999)) + 0.01*w)"
    " + (1 - sign(rms(w)))*(ema(g)/sqrt(ema(g2, 0.999)) + 0.01*w))",
    "LARS": "mom(rms(w)/rms(g + 0.0001*w)*(g + 0.0001*w))",
    "AdEMAMix": "ld*((ema(g) + 5*mom(0.0001*g, 0.9999))/(sqrt(ema(g2, 0.999)) + 1e-8) + 0.1*w)",
    "Cautious AdamW": "ld*(ema(g)/sqrt(ema(g2, 0.999))*sign(relu(g*ema(g)))"
    "*max(rms(sign(relu(g*ema(g))))^2, 0.001)^-1 + 0.01*w)",
    "Lion": "wu*(sign(mix(g, prev(ema(g, 0.99)), 0.1)) + 0.1*w)",
    "Shampoo": "whiten(mom(g), g)",
    "Adagrad": "g/sqrt(mom(g2, 1))",
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_optimizers_belong_to_it_and_pass(name):
    rule = Rule.parse(KNOWN[name])
    assert SPACE.why_not(rule) == ""
    assert Screen()(rule).ok


def test_which_rules_of_the_zoo_it_contains():
    published = [n for n in zoo if spaces["paper"].contains(zoo[n].rule)]
    assert [n for n in published if not SPACE.contains(zoo[n].rule)] == []
    assert SPACE.contains(zoo["lion"].rule)
    assert SPACE.contains(zoo["nesterov"].rule)


def test_it_has_all_modern_operators():
    assert {o.name for o in MODERN} <= {o.name for o in SPACE.operators}
    assert SPACE.max_depth == 34


# --- samples --------------------------------------------------------------------------------------


def test_samples_are_short_contain_the_gradient_and_often_pass():
    rng, again, screen = random.Random(1), random.Random(1), Screen()
    rules = [SPACE.sample(rng) for _ in range(2000)]
    assert rules == [SPACE.sample(again) for _ in rules]
    assert all(SPACE.contains(rule) and not forbidden(rule, SPACE) for rule in rules)
    lengths = sorted(rule.length for rule in rules)
    assert lengths[len(lengths) // 2] <= 8
    assert max(lengths) <= SPACE.max_depth
    assert sum(rule.uses("gradient") for rule in rules) > 0.9 * len(rules)
    assert 0.4 < sum(screen(rule).ok for rule in rules[:500]) / 500 < 0.8
    used = {o.name for rule in rules for o in rule.operators}
    assert used == {o.name for o in SPACE.operators}


# --- weights --------------------------------------------------------------------------------------


def chances(space, depth):
    """Return the exact probability of each rule: weight over the weights allowed, renormalised."""
    found = {}

    def extend(node, chance):
        stack = space._open(node) if len(node) <= depth else []
        if not stack:
            found[node] = chance
            return
        choices = [c.operator for c in stack[-1].choices]
        weights = [Fraction(space.weights.get(o.name, 1)) for o in choices]
        for operator, weight in zip(choices, weights, strict=True):
            longer = (*node, operator)
            if len(longer) + 1 + sum(o.arity - 1 for o in longer) <= depth:
                extend(longer, chance * weight / sum(weights))

    extend((), Fraction(1))
    total = sum(found.values())
    return {node: chance / total for node, chance in found.items()}


def test_operators_are_drawn_by_weight():
    weights = {"g": 4, "neg": 0.5, "add": 2, "1": 0.25}
    parts = named("neg", "sign", "add", "g", "m1", "1")
    space = Space(parts, PAPER_CONSTRAINTS, max_depth=3, weights=weights)
    expected = chances(space, 3)
    assert len(expected) == sum(space.count(n) for n in (1, 2, 3))
    draws, rng = 30_000, random.Random(3)
    seen = Counter(space.sample(rng).operators for _ in range(draws))
    assert set(seen) <= set(expected)
    common = [node for node in expected if expected[node] * draws >= 10]
    rare = set(expected) - set(common)
    observed = [seen[n] for n in common] + [sum(seen[n] for n in rare)]
    wanted = [float(expected[n]) * draws for n in common]
    wanted.append(float(sum(expected[n] for n in rare)) * draws)
    assert chisquare(observed, wanted).pvalue > 1e-4


def test_a_weight_holds_for_every_variant():
    ema = operators["ema"]
    space = Space((ema, ema.variant(0.5), *named("g")), max_depth=2, weights={"ema": 3, "g": 1})
    rng = random.Random(0)
    seen = Counter(str(space.sample(rng)) for _ in range(7000))
    # The second slot needs g; draws without it are repeated: 1/7 for g, 6/49 for the others.
    share = (1 / 7) / (1 / 7 + 6 / 49)
    assert seen["g"] / 7000 == pytest.approx(share, abs=0.03)
    assert seen["ema(g)"] == pytest.approx(seen["ema(g, 0.5)"], rel=0.15)


def test_without_weights_the_same_random_numbers_give_the_same_rules():
    """Searches are seeded: these rules were drawn before there were weights."""
    rng = random.Random(0)
    drawn = [str(spaces["paper"].sample(rng)) for _ in range(6)]
    assert drawn == ["1", "Adam", "sign((RMSprop/(g - m1))^ld)^g2", "Adam + m2", "sign(Adam)", "rd"]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"m1": 1.0}, "a weight for m1, which is not in the space"),
        ({"g": 0.0}, "weight of g must be positive"),
        ({"g": float("nan")}, "weight of g must be positive"),
    ],
)
def test_wrong_weights(weights, message):
    with pytest.raises(SpaceError, match=message):
        Space(named("g", "neg"), weights=weights)


def test_parts_survive_pickling():
    twin = pickle.loads(pickle.dumps(SPACE))
    assert (twin.weights, twin.free_constants) == (SPACE.weights, True)
    assert [twin.sample(random.Random(i)) for i in range(50)] == [
        SPACE.sample(random.Random(i)) for i in range(50)
    ]


# --- free constants -------------------------------------------------------------------------------


def test_rules_with_other_constants_belong_to_it():
    rng = random.Random(2)
    for _ in range(500):
        rule = SPACE.sample(rng)
        other = with_constants(rule, [0.9 * c.value + 0.0123 for c in constants(rule)])
        assert SPACE.why_not(other) == ""


def test_free_constants_apply_to_listed_operators_in_their_places():
    banned = [Constraint("sqrt", {"1"}, "the root is 1"), Constraint("neg", {"1", "2"}, "")]
    parts = named("sqrt", "neg", "mul", "g", "1", "2", "clip")
    free = Space(parts, banned, free_constants=True)
    strict = Space(parts, banned)
    answers = {
        "0.3*g": ("", "0.3 is not an operator"),
        "clip(g, 0.5)": ("", "clip(0.5) is not an operator"),
        "g*sqrt(1)": ("forbid 1", "forbid 1"),
        "g*sqrt(3)": ("", "3 is not an operator"),
        "g*-3": ("forbid 3", "3 is not an operator"),
        "drop(g, 0.5)": ("drop(0.5) is not an operator", "drop(0.5) is not an operator"),
        "m1(0.5)": ("m1(0.5) is not an operator", "m1(0.5) is not an operator"),
    }
    for text, reasons in answers.items():
        for space, reason in zip((free, strict), reasons, strict=True):
            why = space.why_not(Rule.parse(text))
            assert reason in why
            assert bool(why) == bool(reason)
    assert free.count(3) == strict.count(3)


def test_numbers_need_a_number_in_the_space():
    space = Space(named("mul", "g"), free_constants=True)
    assert "3 is not an operator" in space.why_not(Rule.parse("3*g"))


def test_a_tuned_prefix_can_be_completed():
    start = Partial(Rule.parse("0.37*ema(g, 0.77)").operators[:2])
    assert start.operators[1].name == "0.37"
    for seed in range(50):
        rule = SPACE.unroll(start, random.Random(seed))
        assert rule.operators[:2] == start.operators
        assert SPACE.contains(rule)
    assert SPACE.children(start)
