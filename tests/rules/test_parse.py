import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from optsmith import Rule, RuleError, operators
from strategies import CUSTOM, registered


@pytest.fixture(scope="module", autouse=True)
def _custom_operators():
    with registered(*CUSTOM):
        yield


def prefix(text):
    return " ".join(map(repr, Rule.parse(text).operators))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("g", "g"),
        (" \tg\r\n ", "g"),
        ("((g))", "g"),
        ("g + m1", "add g m1"),
        ("g+m1-m2", "sub add g m1 m2"),
        ("g - (m1 - m2)", "sub g sub m1 m2"),
        ("g*m1/m2", "div mul g m1 m2"),
        ("g/(m1*m2)", "div g mul m1 m2"),
        ("g + m1*m2", "add g mul m1 m2"),
        ("(g + m1)*m2", "mul add g m1 m2"),
        ("g*m1 + m2/m3", "add mul g m1 div m2 m3"),
        ("g^m1^m2", "pow g pow m1 m2"),
        ("g**m1**m2", "pow g pow m1 m2"),
        ("g^m1**m2", "pow g pow m1 m2"),
        ("(g^m1)^m2", "pow pow g m1 m2"),
        ("2*g^m1", "mul 2 pow g m1"),
        ("g^m1*2", "mul pow g m1 2"),
        ("-g^2", "neg pow g 2"),
        ("(-g)^2", "pow neg g 2"),
        ("g^-m1", "pow g neg m1"),
        ("g^-m1^m2", "pow g neg pow m1 m2"),
        ("g^-m1*m2", "mul pow g neg m1 m2"),
        ("2**-1", "pow 2 neg 1"),
        ("-g*m1", "mul neg g m1"),
        ("-g + m1", "add neg g m1"),
        ("-(g + m1)", "neg add g m1"),
        ("g*-m1", "mul g neg m1"),
        ("g - -m1", "sub g neg m1"),
        ("g--m1", "sub g neg m1"),
        ("--g", "neg neg g"),
        ("g/-m1/m2", "div div g neg m1 m2"),
        ("-sign(g)", "neg sign g"),
        ("sign(g)", "sign g"),
        ("sg", "sg"),
        ("exp(g)*m1", "mul exp g m1"),
        ("abs(g)", "abs g"),
        ("|g|", "abs g"),
        ("||g||", "abs abs g"),
        ("|g - |m1||", "abs sub g abs m1"),
        ("||g| - m1|", "abs sub abs g m1"),
        ("|g|*|m1|", "mul abs g abs m1"),
        ("|-|g||^2", "pow abs neg abs g 2"),
        ("|(|g| + 1)|", "abs add abs g 1"),
        ("log(g)", "log g"),
        ("log(|g|)", "log g"),
        ("log(abs(g))", "log g"),
        ("log((|g|))", "log g"),
        ("sqrt(|g + m1|)", "sqrt add g m1"),
        ("sqrt(abs(g))", "sqrt g"),
        ("log(||g||)", "log abs g"),
        ("log(|g| + 1)", "log add abs g 1"),
        ("log(-|g|)", "log neg abs g"),
        ("exp(|g|)", "exp abs g"),
        ("1", "1"),
        ("2.0", "2"),
        ("007", "7"),
        ("0.5", "0.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e3", "1000"),
        ("1E-3", "0.001"),
        ("1.5e+2*g", "mul 150 g"),
        ("0", "0"),
        ("1e16", "1e+16"),
        ("0.1", "0.1"),
        ("5e-324", "5e-324"),
        ("drop(g)", "drop g"),
        ("drop(g, 0.3)", "drop(0.3) g"),
        ("drop(g,rate=0.3)", "drop(0.3) g"),
        ("drop(g, 0.1)", "drop g"),
        ("drop(g, --0.3)", "drop(0.3) g"),
        ("clip(m1 - g, 1e-2)", "clip(0.01) sub m1 g"),
        ("m1(0.95)", "m1(0.95)"),
        ("m1(beta = 0.95)*g", "mul m1(0.95) g"),
        ("Adam(eps=0.5)", "Adam(0.003, 0.9, 0.999, 0.5)"),
        ("Adam(1, beta2=0.5)", "Adam(1, 0.9, 0.5, 1e-08)"),
        ("Adam(eps=0.5, scale=1)", "Adam(1, 0.9, 0.999, 0.5)"),
        ("RMSprop(0.03)", "RMSprop"),
        ("rd(7) + cd(n=2)", "add rd(7) cd(2)"),
        ("pow(g, 2)", "pow g 2"),
        ("add(g, mul(m1, 2))", "add g mul m1 2"),
        ("neg(g)", "neg g"),
        ("tanh(g)", "tanh g"),
        ("smooth(drop(g, 0.5), 0.25)", "smooth(0.25) drop(0.5) g"),
        ("larger_of(g, -m1)^2", "pow larger_of g neg m1 2"),
        ("noise(g, -2)", "noise(-2) g"),
        ("noise(g, size=-2)", "noise(-2) g"),
        ("ld*sign(m1) - Adam", "sub mul ld sign m1 Adam"),
    ],
)
def test_ordinary_math(text, expected):
    assert prefix(text) == expected


REFUSED = [
    # text, position, part of the message
    ("", None, "empty"),
    ("   \n\t", None, "empty"),
    ("m1 +", 4, "operand is missing"),
    ("* g", 0, "operand"),
    ("+g", 0, "operand"),
    ("g + * m1", 4, "operand"),
    ("-", 1, "operand is missing"),
    ("foo(g)", 0, 'unknown name "foo"'),
    ("g + bar", 4, 'unknown name "bar"'),
    ("sign(g, g)", 0, "sign takes 1 argument, not 2"),
    ("sign()", 0, "sign takes 1 argument, not 0"),
    ("sign", 0, "sign needs an argument: sign(g)"),
    ("pow(g)", 0, "pow takes 2 arguments, not 1"),
    ("m1 + g(2)", 5, "g takes 0 arguments"),
    ("__import__('os')", 11, "unexpected character"),
    ("__import__(os)", 0, 'unknown name "__import__"'),
    ("g; m1", 1, "';'"),
    ("g.real", 1, "'.'"),
    ("g\0", 1, "U+0000"),
    ("g \N{MINUS SIGN} m1", 2, 'did you mean "-"?'),
    ("2\N{MULTIPLICATION SIGN}g", 1, 'did you mean "*"?'),
    ("[g]", 0, 'did you mean "("?'),
    ("g + \N{SLIGHTLY SMILING FACE}", 4, "unexpected character"),
    ("\N{FULLWIDTH DIGIT TWO}*g", 0, "unexpected character"),
    ("\N{ARABIC-INDIC DIGIT TWO}*g", 0, "unexpected character"),
    ("\N{FULLWIDTH LATIN SMALL LETTER G}", 0, "unexpected character"),
    ("g\N{COMBINING ACUTE ACCENT}", 1, "unexpected character"),
    ("g\N{NO-BREAK SPACE}+ m1", 1, "U+00A0"),
    ("\N{RIGHT-TO-LEFT OVERRIDE}g", 0, "U+202E"),
    ("g\N{ZERO WIDTH SPACE}", 1, "U+200B"),
    ("\ud800", 0, "U+D800"),
    ("(g", 0, "never closed"),
    ("m1 + (g", 5, "never closed"),
    ("sign(g", 0, "never closed"),
    ("g)", 1, "unmatched"),
    (")", 0, "operand"),
    ("()", 1, "operand"),
    ("|g", 0, "never closed"),
    ("g|", 1, "unmatched"),
    ("|g)", 2, "unmatched"),
    ("(g|", 2, "unmatched"),
    ("|", 1, "operand is missing"),
    ("|g|m1|", 3, "operator is missing"),
    ("2 g", 2, 'did you mean "*g"?'),
    ("2g", 1, "operator is missing"),
    ("g m1", 2, "operator is missing"),
    ("(g)(m1)", 3, "operator is missing"),
    ("g = m1", 2, 'unexpected "="'),
    ("g, m1", 1, 'unexpected ","'),
    ("(g, m1)", 2, 'unexpected ","'),
    ("sgn(g)", 0, 'did you mean "sign"?'),
    ("adam", 0, 'did you mean "Adam"?'),
    ("rmsprop + g", 0, 'did you mean "RMSprop"?'),
    ("1e400", 0, "too large"),
    ("g*1e-400", 2, "too small"),
    ("drop(g, m1)", 8, "must be a number"),
    ("drop(g, 1 - 0.5)", 8, "must be a number"),
    ("drop(g, 1)", 0, "rate of drop must be a number from 0 to below 1, not 1"),
    ("drop(g, -0.1)", 0, "rate of drop"),
    ("g + clip(g, -1)", 4, "bound of clip"),
    ("m1(1)", 0, "beta of m1"),
    ("drop(g, 0.1, 0.2)", 0, "at most 1 parameters, not 3"),
    ("drop(rate=0.3)", 0, "needs its argument before rate="),
    ("drop(g, speed=0.3)", 0, "no parameter speed"),
    ("drop(g, rat=0.3)", 0, 'did you mean "rate"?'),
    ("drop(g, rate=)", 13, "operand"),
    ("drop(g,)", 7, "operand"),
    ("drop(,g)", 5, "operand"),
    ("Adam(scale=1, scale=1)", 14, "scale is given twice"),
    ("Adam(1, scale=1)", 0, "scale is given twice"),
    ("Adam(scale=1, 0.5)", 14, "cannot follow"),
    ("(" * 5000 + "g" + ")" * 5000, 200, "nested more than"),
    ("(" * 100_000 + "g" + ")" * 100_000, None, "200001 characters"),
    ("g+" * 500_000 + "g", None, "1000001 characters"),
    ("-" * 5000 + "g", None, "more than 1000 operators"),
    ("g" + "+g" * 5000, None, "more than 1000 operators"),
    ("|" * 5000, 200, "nested more than"),
    ("sign(" * 3000 + "g" + ")" * 3000, None, "nested more than"),
    ("a" * 10_000, 0, "unknown name"),
]


@pytest.mark.parametrize(
    ("text", "position", "message"), REFUSED, ids=[ascii(r[0][:20]) for r in REFUSED]
)
def test_refusals_say_where_and_why(text, position, message):
    start = time.perf_counter()
    with pytest.raises(RuleError) as caught:
        Rule.parse(text)
    assert time.perf_counter() - start < 1
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400
    if position is not None:
        assert caught.value.position == position
        assert f"(at position {position})" in str(caught.value)


@pytest.mark.parametrize("value", [None, 3, 2.5, b"g", ["g"], object()])
def test_only_texts_are_parsed(value):
    with pytest.raises(RuleError, match=type(value).__name__):
        Rule.parse(value)


@pytest.mark.parametrize("text", ["m1(beta=)", "m1(beta=beta=0.5)", "m1(foo=beta=0.5)"])
def test_a_keyword_needs_exactly_one_value(text):
    with pytest.raises(RuleError):
        Rule.parse(text)


@pytest.mark.parametrize("text", ["m1(-beta=-0.5)", "m1(0.5^beta=1)", "noise(g, 2-size=1)"])
def test_a_keyword_stands_first_in_its_argument(text):
    with pytest.raises(RuleError):
        Rule.parse(text)


def test_a_sum_of_400_terms():
    text = " + ".join(["g", "m1"] * 200)
    rule = Rule.parse(text)
    assert rule.length == 799
    assert str(rule) == text
    assert len(rule.tree().splitlines()) == 799
    assert rule.latex().count("+") == 399


def test_nesting_up_to_the_limit():
    text = "(" * 190 + "g" + ")" * 190
    assert Rule.parse(text).operators == (operators["g"],)
    deep = "sign(" * 190 + "g" + ")" * 190
    assert str(Rule.parse(deep)) == deep


_WORDS = [*operators, "rate", "beta", "=", "(", ")", "|", ",", "+", "-", "*", "**", "/", "^", " "]
_WORDS += [
    "0",
    "1",
    "2",
    "0.3",
    "1e5",
    ".",
    "e",
    "?",
    "\N{MINUS SIGN}",
    "\0",
    "'",
    "_",
    "tanh",
    "smooth",
]
texts = st.one_of(st.text(), st.lists(st.sampled_from(_WORDS), max_size=30).map("".join))


@settings(max_examples=1500)
@given(texts)
@example("m1(beta=)")
@example("|" * 400)
@example("drop(" * 400)
def test_any_text_is_a_rule_or_a_rule_error(text):
    try:
        rule = Rule.parse(text)
    except RuleError as refused:
        at = refused.position
    else:
        at = None
        assert Rule.parse(str(rule)) == rule
    assert at is None or 0 <= at <= len(text)
