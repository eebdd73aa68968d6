"""Rules to MathML: the structure of the tree, with parentheses where a reader needs them."""

import random
from xml.etree import ElementTree

import pytest

from optsmith import Operator, Rule, operators, zoo
from optsmith.report._mathml import to_mathml
from optsmith.rules import MODERN
from strategies import CUSTOM, random_rule, registered

APPLIED = "\N{FUNCTION APPLICATION}"
MINUS = "\N{MINUS SIGN}"
LEAVES = ("mi", "mn", "mo")
M1 = ("msub", "m", "1")


def parsed(rule):
    return ElementTree.fromstring(to_mathml(rule))  # noqa: S314


def tree(rule):
    """Return a formula as nested tuples, without rows that hold one thing."""

    def plain(element):
        if element.tag in LEAVES:
            return element.text
        parts = [plain(child) for child in element if child.tag != "mspace"]
        if element.tag in ("mrow", "math"):
            return parts[0] if len(parts) == 1 else tuple(parts)
        return (element.tag, *parts)

    return plain(parsed(rule))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("g", "g"),
        ("-g", (MINUS, "g")),
        ("m1", M1),
        ("g2", ("msup", "g", "2")),
        ("m1/(g + 2)", ("mfrac", M1, ("g", "+", "2"))),
        ("sqrt(g)", ("msqrt", ("|", "g", "|"))),
        ("|g|", ("|", "g", "|")),
        ("RMSprop*exp(Adam)", ("RMSprop", ("msup", "e", "Adam"))),
        ("sign(g)", ("sign", APPLIED, ("(", "g", ")"))),
        ("sg", ("sign", APPLIED, ("(", "g", ")"))),
        ("log(g)", ("log", ("|", "g", "|"))),
        ("log(g)^2", ("msup", ("(", "log", ("|", "g", "|"), ")"), "2")),
        ("1e-7*g", ("1", "⋅", ("msup", "10", (MINUS, "7")), "g")),
        ("g*1e22", ("g", "⋅", "1", "⋅", ("msup", "10", "22"))),
        ("g2^m1", ("msup", ("(", ("msup", "g", "2"), ")"), M1)),
        ("0.5*g", ("0.5", "g")),
        ("2*3", ("2", "⋅", "3")),
        ("2*3^g", ("2", "⋅", ("msup", "3", "g"))),
        ("g*(m1 + 2)", ("g", ("(", M1, "+", "2", ")"))),
        ("g + (m1 + 2)", ("g", "+", M1, "+", "2")),
        ("g - (m1 + 2)", ("g", MINUS, ("(", M1, "+", "2", ")"))),
        ("g - -m1", ("g", MINUS, ("(", MINUS, M1, ")"))),
        ("-(g + m1)", (MINUS, ("(", "g", "+", M1, ")"))),
        ("m1(0.95)", ("msub", M1, "0.95")),
        ("w/k", ("mfrac", "w", "k")),
        ("max(g, w)", ("max", APPLIED, ("(", "g", ",", "w", ")"))),
        ("ema(g, 0.8)", ("msub", ("ema", APPLIED, ("(", "g", ")")), "0.8")),
        ("fan*lin(0, 1, 0.1)", ("fan", ("msub", "lin", ("0", ",", "1", ",", "0.1")))),
        ("hidden(g, m1)", ("hidden", APPLIED, ("(", "g", ",", M1, ")"))),
        ("RMSprop(1, 0.9, 1e-6)",
         ("msub", "RMSprop", ("1", ",", "0.9", ",", "1", "⋅", ("msup", "10", (MINUS, "6"))))),
    ],
)  # fmt: skip
def test_table(text, expected):
    assert tree(Rule.parse(text)) == expected


@pytest.mark.parametrize("operator", MODERN, ids=repr)
def test_every_operator_of_the_modern_space_is_set_by_its_name(operator):
    rule = Rule((operator, *[operators["g"]] * operator.arity))
    names = [element.text for element in parsed(rule).iter("mi")]
    assert names == [operator.name] + ["g"] * operator.arity


def test_an_operator_of_a_users_is_its_name_with_its_operands():
    with registered(*CUSTOM):
        arguments = ("(", "g", ",", M1, ")")
        assert tree(Rule.parse("larger_of(g, m1)")) == ("larger_of", APPLIED, arguments)
        noise = Rule.parse("noise(g, -2.5e-7)")
        value = (MINUS, "2.5", "⋅", ("msup", "10", (MINUS, "7")))
        assert tree(noise) == ("msub", ("noise", APPLIED, ("(", "g", ")")), value)


@pytest.mark.parametrize("name", list(zoo))
def test_every_symbol_of_the_zoo_is_set(name):
    rule = zoo[name].rule
    inputs = [operator for operator in rule.operators if operator.arity == 0]
    leaves = [element for element in parsed(rule).iter() if element.tag in ("mi", "mn")]
    assert len(leaves) >= len(inputs)


def test_every_rule_is_set_and_none_of_its_symbols_lost():
    rng = random.Random(3)
    with registered(*CUSTOM):
        for _ in range(400):
            rule = random_rule(rng, 10)
            inputs = [operator for operator in rule.operators if operator.arity == 0]
            leaves = [element for element in parsed(rule).iter() if element.tag in ("mi", "mn")]
            assert len(leaves) >= len(inputs), rule


def test_parentheses_are_those_of_the_latex():
    rng = random.Random(4)
    for _ in range(400):
        rule = random_rule(rng, 10)
        latex = rule.latex()
        opened = sum(element.text == "(" for element in parsed(rule).iter("mo"))
        assert opened == latex.count("("), rule


def test_markup_in_a_name_is_text():
    math = to_mathml(Rule((Operator("<b>", 0, torch=lambda: 1.0, feed="nothing"),)))
    assert "<b>" not in math
    assert "&lt;b&gt;" in math


def test_long_and_deep_rules_are_set():
    assert to_mathml(Rule.parse(" + ".join(["g"] * 400))).count("<mi>g</mi>") == 400
    assert to_mathml(Rule.parse("sqrt(" * 200 + "g" + ")" * 200)).count("<msqrt>") == 200
