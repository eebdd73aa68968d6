import random
import re

import pytest
from hypothesis import given, settings

from optsmith import Rule, RuleError
from strategies import CUSTOM, random_rule, registered, rules


@pytest.fixture(scope="module", autouse=True)
def _custom_operators():
    with registered(*CUSTOM):
        yield


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("g+m1", "g + m1"),
        ("(g)*(m1)", "g*m1"),
        ("(g + m1) + m2", "g + m1 + m2"),
        ("g + (m1 + m2)", "g + (m1 + m2)"),
        ("g*(m1*m2)", "g*(m1*m2)"),
        ("(g*m1)/m2", "g*m1/m2"),
        ("g^(m1^m2)", "g^m1^m2"),
        ("(g^m1)^m2", "(g^m1)^m2"),
        ("g^(-m1)", "g^-m1"),
        ("-(g^2)", "-g^2"),
        ("(-g)^2", "(-g)^2"),
        ("(-g)*m1", "-g*m1"),
        ("-(g*m1)", "-(g*m1)"),
        ("g - (-m1)", "g - -m1"),
        ("log(g)", "log(|g|)"),
        ("abs(g)", "|g|"),
        ("g ** 2.50", "g^2.5"),
        ("drop(g, rate=0.10)", "drop(g)"),
        ("drop(g, rate=0.3)", "drop(g, 0.3)"),
        ("Adam(beta1=0)", "Adam(0.003, 0, 0.999, 1e-08)"),
        ("add(g, smooth(g, 0.5))", "g + smooth(g, 0.5)"),
    ],
)
def test_texts(text, printed):
    rule = Rule.parse(text)
    assert str(rule) == printed
    assert repr(rule) == f"Rule.parse({printed!r})"


@settings(max_examples=500)
@given(rules(12))
def test_round_trip(rule):
    assert Rule.parse(str(rule)) == rule


@settings(max_examples=100)
@given(rules(80))
def test_round_trip_of_long_rules(rule):
    assert Rule.parse(str(rule)) == rule


def test_round_trip_of_seeded_rules():
    rng = random.Random(7)
    drawn = [random_rule(rng, rng.randint(1, 25)) for _ in range(5000)]
    assert len(set(drawn)) > 3000
    assert max(rule.length for rule in drawn) >= 20
    assert [r for r in drawn if Rule.parse(str(r)) != r] == []


def without_one_pair(text):
    """Yield the text without one pair of parentheses, for each pair that is not of a call."""
    opened = []
    for i, character in enumerate(text):
        if character == "(":
            opened.append(i)
        elif character == ")":
            start = opened.pop()
            if not re.search(r"\w$", text[:start]):
                yield text[:start] + " " + text[start + 1 : i] + " " + text[i + 1 :]


def test_no_needless_parentheses():
    rng = random.Random(11)
    tried = 0
    for rule in (random_rule(rng, 14) for _ in range(3000)):
        for text in without_one_pair(str(rule)):
            tried += 1
            try:
                other = Rule.parse(text)
            except RuleError:
                continue
            assert other != rule, f"{rule} needs no parentheses as {text}"
    assert tried > 1000


def test_tree():
    assert Rule.parse("ld*sign(m1) - drop(g, 0.3)").tree() == "\n".join(
        ["-", "├── *", "│   ├── ld", "│   └── sign", "│       └── m1", "└── drop(0.3)", "    └── g"]
    )


@settings(max_examples=150)
@given(rules(20))
def test_tree_has_one_row_per_operator(rule):
    rows = rule.tree().splitlines()
    assert len(rows) == rule.length
    labels = [re.sub(r"^[│├└─ ]*", "", row) for row in rows]
    assert labels == [operator.symbol or repr(operator) for operator in rule.operators]


@settings(max_examples=100)
@given(rules(20))
def test_fold_sees_every_operator_with_its_operands(rule):
    def count(operator, operands):
        assert len(operands) == operator.arity
        return 1 + sum(operands)

    assert rule.fold(count) == rule.length == len(rule.operators)
    assert rule.uses("gradient") == any(o.feed == "gradient" for o in rule.operators)
