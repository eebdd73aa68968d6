"""The structure of rules, which leaves out their constants."""

from __future__ import annotations

import random

import pytest

from optsmith import Rule, spaces
from optsmith.rules import constants, structure, with_constants


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ema(g, 0.8)", "ema(g, 0.9)"),
        ("ema(g)/sqrt(ema(g2, 0.999))", "ema(g, 0.95)/sqrt(ema(g^2, 0.95))"),
        ("ema(g)/sqrt(ema(g2, 0.999))", "ema(g, 0.99)/sqrt(ema(g2, 0.9))"),
        ("mix(g, m1, 0.3)", "g + 2*m1"),
        ("mix(g, m1, 0.2)", "mix(m1, g, 0.5)"),
        ("mom(g, 0.5)", "m1"),
        ("sign(mom(g))", "sm1"),
        ("max(g, m1)", "max(m1, g)"),
        ("wu(0.1)*g", "wu(0.3)*g"),
        ("lin(0.2)*g", "g*lin(0, 1, 0.1)"),
        ("hidden(orth(mom(g)), Adam)", "hidden(0.2*orth(m1(0.8)), Adam)"),
        ("whiten(g, g, 0.9)", "whiten(g, g, 0.5)"),
        ("g + 0.1*w", "g + 0.01*w"),
        ("ema(ema(g, 0.5), 0.9)", "ema(ema(g, 0.9), 0.5)"),
    ],
)
def test_constants_are_no_part_of_the_structure(one, other):
    assert structure(Rule.parse(one)) == structure(Rule.parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ema(g, 0.9) - ema(g, 0.99)", "0*g"),
        ("hidden(g, m1)", "hidden(m1, g)"),
        ("whiten(g, g, 0.9, 10)", "whiten(g, g, 0.9, 20)"),
        ("whiten(g, m1)", "whiten(m1, g)"),
        ("ema(g)", "mom(g)"),
        ("ema(g)", "ema(w)"),
        ("m1 + mom(g, 0.5)", "m1"),
        ("m1 + sign(m1(0.5))", "m1 + sm1"),
        ("max(g, m1)", "min(g, m1)"),
        ("orth(g)", "unit(g)"),
        ("g + w", "g - w"),
    ],
)
def test_the_rest_is(one, other):
    assert structure(Rule.parse(one)) != structure(Rule.parse(other))


def test_other_constants_leave_the_structure_of_random_rules():
    """Except where a term vanishes or two variants of an operator become one."""
    rng, equal, tried = random.Random(0), 0, 0
    while tried < 300:
        rule = spaces["modern"].sample(rng)
        known = constants(rule)
        if known and len({(c.parameter, c.value) for c in known}) == len(known):
            tried += 1
            other = with_constants(rule, [0.9 * c.value + 0.05 for c in known])
            equal += structure(rule) == structure(other)
    assert equal > 290
