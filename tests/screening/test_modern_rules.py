"""Screening of rules with weights, state of any expression, whole tensors and roles."""

from __future__ import annotations

import math

import pytest

from optsmith import Operator, Rule, Screen, operators, screen
from optsmith.screening import agree

SCREEN = Screen()

# Fingerprints are stored in studies: these were computed before there were weights and vectors.
STORED = {
    "g": ("8eb8377286b31ee96d1499fce01060ff", "09487146b86948a3556207d6fb2350a4"),
    "m1": ("50d0b7866834ba90ee8f10f5b19d3610", "097541b517a36bf8c2e7d4be252b3c00"),
    "Adam": ("18475e22fb5faa33c35c9bfaebdc8b1f", "f4a921d2ced0d6fd4eaf821397a50119"),
    "ld*sign(m1) - Adam": ("5b33dfb6439dfe10cf82bf4844fb8ad7", "eed92e3a1ac8b62ff08e44c6ceb6a657"),
    "drop((sign(g) - m1)/cd)": (
        "c82191af1ce8c4ef51b4e591bb786a57",
        "51e3cff4781f162fc797ebed20386e55",
    ),
    "m1 + RMSprop*rd^g3": ("3ae8ba63849e6a86cf68e0a3c8fc3dcf", "01d785cb4df3182975a2e22619f3fc0b"),
    "g + 0.9*m1": ("4106072638e688d4d641d83652ddbda4", "4120bb73ac18c66d9b32383bfc987779"),
    "drop(g,0.3)+drop(m1)*drop(g)": (
        "ea5c7d2ce60692ca41e4b93bc10d4aae",
        "4a203dbaab3f970d3fe715b397b01642",
    ),
}


def codes(text):
    found = SCREEN(Rule.parse(text))
    return found.fingerprint, found.scale_fingerprint


@pytest.mark.parametrize("text", STORED)
def test_stored_fingerprints_do_not_change(text):
    assert codes(text) == STORED[text]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("m1", "mom(g)"),
        ("sm1", "sign(mom(g))"),
        ("mom(g, 0.5)", "m1(0.5)"),
        ("ema(g, 0)", "g"),
        ("ema(2*g)", "2*ema(g)"),
        ("ema(g + w)", "ema(w) + ema(g)"),
        ("prev(g*w)", "prev(w)*prev(g)"),
        ("mom(1, 1)*g", "k*g"),
        ("mix(g, m1, 0.25)", "0.25*g + 0.75*m1"),
        ("max(g, m1)", "-min(-m1, -g)"),
        ("relu(g)", "max(g, 0)"),
        ("lin*g", "ld*g"),
        ("cos*g", "cd*g"),
        ("unit(2*g)", "unit(g)"),
        ("rms(w)*unit(g)", "unit(3*g)*rms(w)"),
        ("orth(m1)", "orth(mom(g))"),
        ("whiten(2*g, g)", "2*whiten(g, g)"),
        ("whiten(g, 2*g)", "whiten(g, g)"),
        ("drop(unit(g)) + drop(w)", "drop(w) + drop(unit(g))"),
        ("ema(drop(g)) + drop(g)", "drop(g) + ema(drop(g))"),
        ("hidden(g, g)", "g"),
        ("hidden(m1, mom(g))", "m1"),
        ("hidden(drop(g), drop(g))", "drop(g)"),
        ("hidden(orth(g), orth(g))", "orth(g)"),
        ("ema(hidden(unit(g), unit(g)))", "ema(unit(g))"),
        ("hidden(hidden(g, m1), Adam)", "hidden(g, Adam)"),
        ("hidden(g, m1) + w", "hidden(w + g, m1 + w)"),
        ("hidden(orth(g), Adam)*ld", "hidden(ld*orth(g), ld*Adam)"),
    ],
)
def test_equal_functions_share_both_codes(one, other):
    assert codes(one) == codes(other)
    assert agree(Rule.parse(one), Rule.parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("g", "g + 0.001*w"),
        ("g*w", "g*|w|"),
        ("k*g", "g"),
        ("wu(0.1)*g", "g"),
        ("lin(0.5)*g", "lin*g"),
        ("cos(0, 1, 0.1)*g", "cos*g"),
        ("ema(g)", "mom(g)"),
        ("ema(g, 0.99)", "ema(g, 0.999)"),
        ("ema(ema(g))", "ema(g)"),
        ("ema(g2)", "ema(g)*ema(g)"),
        ("prev(g)", "g"),
        ("prev(prev(g))", "prev(g)"),
        ("mix(g, m1, 0.1)", "mix(g, m1, 0.5)"),
        ("max(g, m1)", "min(g, m1)"),
        ("orth(g)", "g"),
        ("orth(g)", "unit(g)"),
        ("orth(g)", "sign(g)"),
        ("orth(g)", "orth(m1)"),
        ("orth(g)", "orth(orth(g))"),
        ("orth(m1)", "whiten(m1, m1)"),
        ("hidden(orth(m1), Adam)", "hidden(m1, Adam)"),
        ("hidden(orth(m1), Adam)", "hidden(unit(m1), Adam)"),
        ("0.1*w + orth(m1)", "0.1*w + m1"),
        ("ema(orth(g))", "orth(ema(g))"),
        ("unit(g)", "g"),
        ("unit(g)", "rows(g)"),
        ("rows(g)", "cols(g)"),
        ("rms(g)*g", "g"),
        ("rms(w)*g", "g"),
        ("fan*g", "g"),
        ("aspect*g", "g"),
        ("fan*g", "aspect*g"),
        ("hidden(fan*orth(g), Adam)", "hidden(orth(g), Adam)"),
        ("hidden(aspect*orth(g), Adam)", "hidden(orth(g), Adam)"),
        ("whiten(g, g)", "g"),
        ("whiten(g, g)", "whitenr(g, g)"),
        ("whitenr(g, g)", "whitenc(g, g)"),
        ("whiten(g, m1)", "whiten(m1, g)"),
        ("whiten(g, g, 0.95, 10)", "whiten(g, g, 0.95, 20)"),
        ("whiten(g, g, 0.95)", "whiten(g, g, 0.9)"),
        ("hidden(g, m1)", "hidden(m1, g)"),
        ("hidden(g, m1)", "g"),
        ("hidden(g, m1)", "m1"),
        ("hidden(g, 2*g)", "g"),
        ("hidden(g, 2*g)", "hidden(2*g, g)"),
        ("hidden(orth(g), g)", "hidden(g, orth(g))"),
    ],
)
def test_different_functions_share_none(one, other):
    first, second = codes(one), codes(other)
    assert first[0] != second[0]
    assert first[1] != second[1]


@pytest.mark.parametrize("text", ["orth(m1) + 0.1*w", "hidden(orth(m1), Adam)", "unit(g)*rms(w)"])
def test_positive_multiples_share_the_scale_code(text):
    one, other, minus = codes(text), codes(f"0.1*({text})"), codes(f"-({text})")
    assert one[1] == other[1]
    assert one[0] != other[0]
    assert one[1] != minus[1]


@pytest.fixture
def on_vectors():
    """Return the name of an operator that doubles vectors and leaves matrices as they are."""
    operators.register(
        Operator("on_vectors", 1, lambda x: x if x.ndim > 1 else 2 * x, scope="tensor")
    )
    yield "on_vectors"
    operators.remove("on_vectors")


def test_rules_that_differ_on_vectors_only(on_vectors):
    one, other = codes(f"unit(g) + {on_vectors}(m1)"), codes("unit(g) + m1")
    assert one[0] != other[0]
    assert one[1] != other[1]
    assert not agree(Rule.parse("orth(g) + on_vectors(m1)"), Rule.parse("orth(g) + m1"))


def test_hidden_parameters_are_matrices(on_vectors):
    assert codes(f"hidden({on_vectors}(g), Adam)*rms(w)") == codes("hidden(g, Adam)*rms(w)")


# --- what passes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "ema(g)/sqrt(ema(g2, 0.999)) + 0.1*w",
        "fan*orth(mix(g, ema(g, 0.95), 0.05))",
        "ld*(hidden(0.2*fan*orth(mom(g, 0.95)), ema(g)/sqrt(ema(g2, 0.999))) + 0.1*w)",
        "rms(w)*unit(ema(g)/sqrt(ema(g2, 0.999)) + 0.01*w)",
        "mom(rms(w)/rms(g)*g)",
        "relu(sign(g*ema(g)))*ema(g)/sqrt(ema(g2, 0.999))",
        "(ema(g) + 5*ema(g, 0.9999))/sqrt(ema(g2, 0.999))",
        "whiten(mom(g), g)",
        "rows(cols(g))",
        "wu(0.1)*g",
        "g/sqrt(mom(g2, 1))",
        "unit(drop(g))",
        "hidden(0.1, 1)*unit(g)",
    ],
)
def test_good_rules_pass(text):
    found = screen(Rule.parse(text))
    assert (found.ok, found.reason) == (True, "")
    assert found.cosine > 0.15
    assert found.trajectory_cosine > 0.05


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("w", "does not depend on the gradient"),
        ("ema(w)*ld + k", "does not depend on the gradient"),
        ("unit(w)", "does not depend on the gradient"),
        ("g*w", "fails the descent test"),
        ("-orth(g)", "fails the descent test"),
        ("rms(g)", "fails the descent test"),
        ("hidden(g, -g)", "fails the descent test"),
        ("hidden(-g, g)", "fails the descent test"),
        ("hidden(g, w)", "does not depend on the gradient"),
        ("hidden(1, g)", "is constant"),
        ("hidden(g, log(g - g))", "is nowhere finite"),
        ("hidden(g, 1/g)", "fails the trajectory descent test"),
        ("orth(ld)", "applies orth to a number"),
        ("orth(2)", "applies orth to a number"),
        ("g + orth(2)", "applies orth to a number"),
        ("g*rms(ld*2)", "applies rms to a number"),
        ("g*unit(rms(g) + 1)", "applies unit to a number"),
        ("g*cols(fan*ema(k))", "applies cols to a number"),
        ("whiten(g, ld)", "applies whiten to a number"),
        ("whitenr(2, g)", "applies whitenr to a number"),
        ("hidden(g, g*rows(wu))", "applies rows to a number"),
        ("rows(hidden(g, 2))", "applies rows to a number"),
    ],
)
def test_reasons(text, reason):
    found = screen(Rule.parse(text))
    assert (found.ok, found.reason) == (False, reason)
    assert math.isnan(found.cosine) == (not reason.startswith("fails"))
    assert found.fingerprint


def test_operators_of_users_may_be_applied_to_numbers(on_vectors):
    assert screen(Rule.parse(f"g*{on_vectors}(2)")).ok


@pytest.mark.parametrize(("one", "other"), [("g", "sign(g)"), ("sign(g)", "g"), ("m1", "m1")])
def test_the_smaller_cosine_counts(one, other):
    parts = [screen(Rule.parse(text)) for text in (one, other)]
    both = screen(Rule.parse(f"hidden({one}, {other})"))
    assert both.cosine == min(part.cosine for part in parts)
    assert both.trajectory_cosine == min(part.trajectory_cosine for part in parts)


def test_nan_for_one_role_is_not_hidden_by_the_other():
    for text in ("hidden(g, g^0.5)", "hidden(g^0.5, g)"):
        assert math.isnan(Screen(-2.0, -2.0)(Rule.parse(text)).cosine)
        assert not Screen(-2.0, -2.0)(Rule.parse(text)).ok
