import random
import re

import pytest
from hypothesis import given, settings

from optsmith import Rule
from strategies import CUSTOM, random_rule, registered, rules


@pytest.fixture(scope="module", autouse=True)
def _custom_operators():
    with registered(*CUSTOM):
        yield


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("g", "g"),
        ("m1/(g + 2)", r"\frac{m_{1}}{g + 2}"),
        ("(g + m1)*ld", r"\left(g + m_{1}\right)\,\mathrm{ld}"),
        ("g - (m1 - m2)", r"g - \left(m_{1} - m_{2}\right)"),
        ("g + (m1 - m2)", r"g + m_{1} - m_{2}"),
        ("g - m1*m2", r"g - m_{1}\,m_{2}"),
        ("g*-m1", r"g\,\left(-m_{1}\right)"),
        ("g - -m1", r"g - \left(-m_{1}\right)"),
        ("(g^2)^m1", r"{\left({g}^{2}\right)}^{m_{1}}"),
        ("g^2^m1", r"{g}^{{2}^{m_{1}}}"),
        ("g^(g + 1)", r"{g}^{g + 1}"),
        ("(-g)^2", r"{\left(-g\right)}^{2}"),
        ("-g^2", r"-{g}^{2}"),
        ("g2^2", r"{\left(g^{2}\right)}^{2}"),
        ("exp(g)^2", r"{\left(e^{g}\right)}^{2}"),
        ("log(g)", r"\log\left|g\right|"),
        ("sqrt(g)", r"\sqrt{\left|g\right|}"),
        ("|g|", r"\left|g\right|"),
        ("sign(m1)", r"\operatorname{sign}\left(m_{1}\right)"),
        ("2*3", r"2 \cdot 3"),
        ("g*0.5", r"g \cdot 0.5"),
        ("1e-5", r"1 \cdot 10^{-5}"),
        ("clip(g, 0.5)", r"{\operatorname{clip}\left(g\right)}_{0.5}"),
        ("w/k^0.5", r"\frac{w}{{k}^{0.5}}"),
        ("ema(g)^2", r"{\operatorname{ema}\left(g\right)}^{2}"),
        ("ema(g, 0.8)", r"{\operatorname{ema}\left(g\right)}_{0.8}"),
        ("max(g, w)", r"\max\left(g, w\right)"),
        ("lin(0.1, 0.9, 0)*fan", r"{\mathrm{lin}}_{0.1, 0.9, 0}\,\mathrm{fan}"),
        ("hidden(g, m1)", r"\operatorname{hidden}\left(g, m_{1}\right)"),
        ("whiten(g, w, 0.9, 5)", r"{\operatorname{whiten}\left(g, w\right)}_{0.9, 5}"),
        ("larger_of(g, m1)", r"\operatorname{larger\_of}\left(g, m_{1}\right)"),
    ],
)
def test_table(text, latex):
    assert Rule.parse(text).latex() == latex


def test_a_power_of_a_number_in_scientific_notation_is_enclosed():
    assert Rule.parse("1e-5^g").latex() == r"{\left(1 \cdot 10^{-5}\right)}^{g}"


def test_a_power_of_a_number_does_not_run_into_the_number_before():
    assert Rule.parse("2*3^g").latex() == r"2 \cdot {3}^{g}"


def check(latex):
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", latex):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0
    opened = []
    for side, delimiter in re.findall(r"\\(left|right)([(|)])", latex):
        if side == "left":
            opened.append(delimiter)
        else:
            assert opened.pop() == {")": "(", "|": "|"}[delimiter]
    assert not opened
    assert len(re.findall(r"\\(?:left|right)(?![a-z])", latex)) % 2 == 0
    assert "%s" not in latex
    assert "^{}" not in latex


@settings(max_examples=200)
@given(rules(20))
def test_braces_and_delimiters_match(rule):
    check(rule.latex())


def test_braces_and_delimiters_match_over_seeded_rules():
    rng = random.Random(5)
    seen = {}
    for rule in (random_rule(rng, 10) for _ in range(3000)):
        latex = rule.latex()
        check(latex)
        # Rules that differ by associativity only may have the same formula; others must not.
        twin = seen.setdefault(latex, rule)
        key = [sorted(o.name for o in r.operators) for r in (rule, twin)]
        assert key[0] == key[1], f"{rule} and {twin} are both {latex}"
