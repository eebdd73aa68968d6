"""LaTeX to MathML: the same structure, or None."""

import random
from xml.etree import ElementTree

import pytest

from optsmith import Rule, zoo
from optsmith.report._mathml import to_mathml
from strategies import CUSTOM, random_rule, registered

APPLIED = "\N{FUNCTION APPLICATION}"
LEAVES = ("mi", "mn", "mo")


def tree(latex):
    """Return a formula as nested tuples, without rows that hold one thing."""

    def plain(element):
        if element.tag in LEAVES:
            return element.text
        parts = [plain(child) for child in element if child.tag != "mspace"]
        if element.tag in ("mrow", "math"):
            return parts[0] if len(parts) == 1 else tuple(parts)
        return (element.tag, *parts)

    return plain(ElementTree.fromstring(to_mathml(latex)))  # noqa: S314


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("g", "g"),
        ("-g", ("\N{MINUS SIGN}", "g")),
        ("m_{1}", ("msub", "m", "1")),
        ("g^{2}", ("msup", "g", "2")),
        ("x^2_i", ("msubsup", "x", "i", "2")),
        (r"\frac{m_{1}}{g + 2}", ("mfrac", ("msub", "m", "1"), ("g", "+", "2"))),
        (r"\sqrt{\left|g\right|}", ("msqrt", ("|", "g", "|"))),
        (r"\mathrm{RMSprop}\,e^{\mathrm{Adam}}", ("RMSprop", ("msup", "e", "Adam"))),
        (r"\operatorname{sign}\left(g\right)", ("sign", APPLIED, ("(", "g", ")"))),
        (r"\log\left|g\right|", ("log", ("|", "g", "|"))),
        (r"\operatorname{larger\_of}", "larger_of"),
        (r"2 \cdot 10^{-5}", ("2", "⋅", ("msup", "10", ("\N{MINUS SIGN}", "5")))),
        (r"{\left({g}^{2}\right)}^{m}", ("msup", ("(", ("msup", "g", "2"), ")"), "m")),
        (r"\hat{m}", ("mover", "m", "^")),
        (r"\lambda\,\Omega", ("λ", "Ω")),
        (r"\left.x\right|_{0}", ("msub", ("x", "|"), "0")),
        (r"\text{two words}", "two words"),
        ("0.5g", ("0.5", "g")),
        ("<", "<"),
    ],
)  # fmt: skip
def test_table(latex, expected):
    assert tree(latex) == expected


@pytest.mark.parametrize(
    "latex",
    ["", r"\mystery{x}", "x^", "^2", r"\left(x", r"x\right)", "{x", "x}", r"\frac{1}", "x^2^3",
     r"\left<x\right>", "$x$", r"\text{a\b}", r"\sqrt" * 5000 + "x", "{" * 5000 + "}" * 5000],
)  # fmt: skip
def test_what_is_not_understood_is_reported(latex):
    assert to_mathml(latex) is None


@pytest.mark.parametrize("name", list(zoo))
def test_the_zoo_is_set(name):
    assert to_mathml(zoo[name].rule.latex())


def test_every_rule_is_set_and_none_of_its_symbols_lost():
    rng = random.Random(3)
    with registered(*CUSTOM):
        for _ in range(400):
            rule = random_rule(rng, 10)
            math = to_mathml(rule.latex())
            assert math is not None, rule
            inputs = [o for o in rule.operators if o.arity == 0]
            leaves = [e for e in ElementTree.fromstring(math).iter() if e.tag in ("mi", "mn")]  # noqa: S314
            assert len(leaves) >= len(inputs)


def test_markup_in_a_template_is_text():
    math = to_mathml(r"\text{<script>}\left(g\right)")
    assert "<script>" not in math
    assert "&lt;script&gt;" in math


def test_a_long_sum_is_set():
    text = " + ".join(["g"] * 400)
    assert to_mathml(Rule.parse(text).latex())
