"""Rules with one part left out, and rounded constants."""

from __future__ import annotations

import pytest
from hypothesis import given

from optsmith import Rule
from optsmith.rules import constants, deletions, flattenings, rounded, subrule
from strategies import rules

CASES = {
    "ld*sign(m1) - Adam": {
        "ld*sign(m1)": "-Adam",
        "Adam": "ld*sign(m1)",
        "ld": "sign(m1) - Adam",
        "sign": "ld*m1 - Adam",
    },
    "cd^0.7*(g + 0.9*m1)": {
        "cd^0.7": "g + 0.9*m1",
        "^0.7": "cd*(g + 0.9*m1)",
        "g": "cd^0.7*(0.9*m1)",
        "0.9*m1": "cd^0.7*g",
    },
    "hidden(0.2*fan*orth(g), ema(g)/sqrt(ema(g^2)))": {
        "0.2*fan": "hidden(orth(g), ema(g)/sqrt(|ema(g^2)|))",
        "orth": "hidden(0.2*fan*g, ema(g)/sqrt(|ema(g^2)|))",
    },
    "g + 1": {},
    "0.5*g": {},
}


@pytest.mark.parametrize("text", CASES)
def test_each_part_is_left_out_once(text):
    found = {edit.without: str(edit.rule) for edit in deletions(Rule.parse(text))}
    assert found == CASES[text]


@given(rules())
def test_what_remains_is_shorter_and_depends_on_the_gradient(rule):
    for edit in deletions(rule):
        assert edit.rule.length < rule.length
        assert edit.rule.uses("gradient")


@given(rules())
def test_the_first_subrule_is_the_rule(rule):
    assert subrule(rule, 0) == rule
    assert all(subrule(rule, i).operators[0] == o for i, o in enumerate(rule.operators))


def test_constants_are_rounded_on_their_scale():
    rule = Rule.parse("0.123456*ema(g, 0.998765) + mix(g, w, 0.51239) + m1(0.85432)")
    assert str(rounded(rule, 2)) == "0.12*ema(g, 0.9988) + mix(g, w, 0.51) + m1(0.85)"
    assert all(c.parameter.allows(c.value) for c in constants(rounded(rule, 1)))
    assert rounded(rule, 12) == rule


FLAT = {
    "cd*(ema(g)/sqrt(ema(g^2)))": {
        "ema(g)/sqrt(|ema(g^2)|) → 4*ema(g)": "cd*(4*ema(g))",
        "ema(g) → 0.5*g": "cd*(0.5*g/sqrt(|ema(g^2)|))",
    },
    # Equal averages are replaced together.
    "g + 2*mom(g) + sign(mom(g))": {"mom(g) → 3*g": "g + 2*(3*g) + sign(3*g)"},
    "hidden(orth(mom(g)), g/3)": {"mom(g) → 3*g": "hidden(orth(3*g), g/3)"},
    "cd*sign(g)": {},
}


@pytest.mark.parametrize("text", FLAT)
def test_divisors_and_averages_become_constants_that_keep_the_size(text):
    sizes = {"g": 1.0, "mom(g)": 3.0, "ema(g)": 0.5, "ema(g)/sqrt(|ema(g^2)|)": 2.0}
    found = flattenings(Rule.parse(text), lambda rule: sizes[str(rule)])
    assert {edit.without: str(edit.rule) for edit in found} == FLAT[text]


def test_nothing_is_replaced_if_its_size_is_not_known():
    rule = Rule.parse("mom(g)")
    assert flattenings(rule, lambda rule: float("nan")) == []
    assert flattenings(rule, lambda rule: 0.0) == []
