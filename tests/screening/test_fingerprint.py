import random

import pytest

from optsmith import Rule, Screen, screen, spaces

SCREEN = Screen()


def codes(text):
    found = SCREEN(text if isinstance(text, Rule) else Rule.parse(text))
    return found.fingerprint, found.scale_fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("g + m1", "m1 + g"),
        ("g*m1", "m1*g"),
        ("g + (m1 + m2)", "g + m1 + m2"),
        ("g*(m1*m2)", "m2*g*m1"),
        ("(m1 + g) + (m3 + Adam)", "Adam + (m1 + (m3 + g))"),
        ("ld*(g + m1)", "ld*g + ld*m1"),
        ("(g + m1)*(g - m1)", "g2 - m1*m1"),
        ("g + g", "2*g"),
        ("g - -g", "2*g"),
        ("m1 + m1 + m1", "3*m1"),
        ("--g", "g"),
        ("-(g - m1)", "m1 - g"),
        ("g - m1", "g + -m1"),
        ("sg", "sign(g)"),
        ("sm1", "sign(m1)"),
        ("g2", "g*g"),
        ("g3", "g*g2"),
        ("g2", "g^2"),
        ("sign(ld*m1)", "sm1"),
        ("sign(g3)", "sg"),
        ("sign(Adam)*|Adam|", "Adam"),
        ("sqrt(g2)", "|g|"),
        ("exp(Adam + RMSprop)", "exp(RMSprop)*exp(Adam)"),
        ("log(exp(sg))", "sg"),
        ("2*log(m1)", "log(m1*m1)"),
        ("log(|g|)", "log(g)"),
        ("clip(clip(m1))", "clip(m1)"),
        ("clip(-g)", "-clip(g)"),
        ("g + 0", "g"),
        ("g*1", "g"),
        ("g^1", "g"),
        ("0*g + m1", "m1"),
        ("m1 + g - g", "m1"),
        ("0.1*g*10", "g"),
        ("drop(g) + m1", "m1 + drop(g)"),
        ("drop(g) + drop(m1)", "drop(m1) + drop(g)"),
        ("drop(g)*drop(m1 + g)", "drop(g + m1)*drop(g)"),
        ("drop(2*g)", "2*drop(g)"),
        ("drop(-g) + drop(m1)", "drop(m1) - drop(g)"),
        ("drop(drop(g)) + drop(m1)", "drop(m1) + drop(drop(g))"),
        ("drop(g + drop(m1))", "drop(drop(m1) + g)"),
        ("drop(g + m1)", "drop(m1 + g)"),
        ("drop(g) + drop(g)*1", "1*drop(g) + drop(g)"),
        ("m1(0.9)", "m1"),
        ("drop(g, 0)", "g"),
        ("cd*(RMSprop - Adam)", "-cd*(Adam - RMSprop)"),
    ],
)
def test_equal_functions_share_both_codes(one, other):
    assert codes(one) == codes(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("clip(g)", "clip(sign(g))"),
        ("clip(g)", "g"),
        ("clip(m1)", "clip(m1, 0.01)"),
        ("Adam", "clip(Adam)"),
        ("Adam", "RMSprop"),
        ("Adam", "Adam(eps=1e-3)"),
        ("Adam", "Adam(beta2=0.99)"),
        ("RMSprop", "RMSprop(alpha=0.9)"),
        ("m1", "g"),
        ("m1", "m1(0.95)"),
        ("m2", "g2"),
        ("m2", "m2(0.99)"),
        ("m3", "g3"),
        ("sg", "sm1"),
        ("sm1", "sm1(0.95)"),
        ("g", "-g"),
        ("g", "g + 0.001*m1"),
        ("g", "ld*g"),
        ("ld*g", "cd*g"),
        ("rd*g", "g"),
        ("rd*g", "rd(19)*g"),
        ("cd*g", "cd(1)*g"),
        ("g", "|g|"),
        ("g - m1", "m1 - g"),
        ("g/m1", "m1/g"),
        ("g^m1", "m1^g"),
        ("drop(g)", "g"),
        ("drop(g)", "drop(g, 0.3)"),
        ("drop(g)", "drop(drop(g))"),
        ("drop(g) - drop(g)", "g - g"),
        ("drop(g) + drop(g)", "2*drop(g)"),
        ("drop(g)*drop(g)", "drop(g)^2"),
        ("drop(g)/drop(g)", "g/g"),
        ("drop(g + m1)", "drop(g) + drop(m1)"),
        ("drop(sg)", "sign(drop(m1))"),
        # These are NaN or infinite at different elements.
        ("log(|g|)", "log(|g|) + 0*g^0.5"),
        ("log(|g|)", "log(|g|) + 0*m1^0.5"),
        ("g", "g + 0*log(g)"),
        ("g", "g^1.5/g^0.5"),
        ("g", "exp(log(g))"),
        ("1/g", "-(1/-g)"),
        ("exp(log(g))", "|g| + 0*(-g)^0.5"),
        ("sign(log(g - g))", "sign((g - 1 - g)^0.5)"),
    ],
)
def test_different_functions_share_none(one, other):
    a, b = codes(one), codes(other)
    assert a[0] != b[0]
    assert a[1] != b[1]


@pytest.mark.parametrize(
    "text", ["g", "m1 + sign(g)", "Adam", "ld*RMSprop", "drop(m1) - g", "log(g)"]
)
def test_positive_multiples_share_the_scale_code(text):
    one = codes(text)
    for factor in ("2", "0.1", "10", "1e-5", "123.456", "3^2", "exp(1)", "1e6"):
        other = codes(f"{factor}*({text})")
        assert one[1] == other[1]
        assert one[0] != other[0]


@pytest.mark.parametrize("text", ["g", "m1 + sign(g)", "Adam", "drop(m1) - g"])
def test_negative_multiples_do_not(text):
    one = codes(text)
    for factor in ("-1", "-0.1", "-3"):
        other = codes(f"({factor})*({text})")
        assert one[1] != other[1]
        assert one[0] != other[0]


def test_random_operators_that_differ_in_rate_commute():
    assert codes("drop(g) + drop(g, 0.3)") == codes("drop(g, 0.3) + drop(g)")


def commuted(rule, rng):
    """Return the rule with the operands of some sums and products swapped."""

    def swap(operator, operands):
        if operator.name in ("add", "mul") and rng.random() < 0.7:
            operands = operands[::-1]
        return (operator, *(o for operand in operands for o in operand))

    return Rule(rule.fold(swap))


def test_commuted_rules_share_their_codes():
    rng = random.Random(8)
    tried = failed = 0
    while tried < 2000:
        rule = spaces["paper"].sample(rng)
        other = commuted(rule, rng)
        if other != rule:
            tried += 1
            failed += codes(rule) != codes(other)
    assert failed < 20, f"{failed} of {tried}"


def test_fingerprints_tell_the_inputs_apart():
    inputs = [str(r) for r in spaces["paper"].enumerate(1)]
    assert len({codes(text)[0] for text in inputs}) == 15
    assert len({codes(text)[1] for text in inputs}) == 14  # 1 and 2


def test_fingerprints_are_short_texts():
    found = screen(Rule.parse("m1"))
    for code in (found.fingerprint, found.scale_fingerprint):
        assert isinstance(code, str)
        assert 16 <= len(code) <= 64
    assert found.fingerprint != found.scale_fingerprint
