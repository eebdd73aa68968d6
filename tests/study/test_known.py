"""Rules that a search finds again have the name of the known optimizer."""

from __future__ import annotations

import pytest

from optsmith import Evaluation, Rule, Status, zoo
from optsmith.rules import Operator, operators, structure
from optsmith.study import known_name, without_known
from optsmith.study._known import is_known

NAMES = {
    "g": "torch:sgd",
    "2*g": "torch:sgd",
    "0*m1 + g": "torch:sgd",
    "g + 0.9*m1": "torch:nesterov",
    "1.8*m1 + 2*g": "torch:nesterov",
    "cd*(g + 0.9*m1)": "torch:nesterov+cosine",
    "ld*g + 0.9*m1*ld": "torch:nesterov+linear",
    "Adam(0.001)": "torch:adam",
    "wc*g": "torch:sgd+warmup-cosine",
    "sign(0.9*m1(0.99) + 9*g)": "optsmith:lion",
    "ld*sign(m1(0.99) + 10*g)": "optsmith:lion+linear",
    "sg": "signsgd",
    "sm1*ld": "signum+linear",
    "2*(m1 + RMSprop*exp(Adam))": "mnist1",
    "lin*mom(g)": "torch:momentum+linear",
    "ema(g)/sqrt(ema(g^2, 0.999))": "torch:adam",
    "3*ema(g)/sqrt(ema(g2, 0.999)) + 0.03*w": "torch:adamw",
    "cd*(Adam(1) + 0.01*w)": "torch:adamw+cosine",
    f"ld*({zoo['nadam'].rule})": "torch:nadam+linear",
    f"2*({zoo['muon'].rule})": "torch:muon",
    f"cd*({zoo['lamb'].rule})": "lamb+cosine",
    # known structures with other constants
    "g + 0.83*m1": "torch:nesterov, tuned",
    "m1 + g": "torch:nesterov, tuned",
    "cd*(m1(0.95) + g)": "torch:nesterov+cosine, tuned",
    "ld*m1(0.95)": "torch:momentum+linear, tuned",
    "Adam(0.003, 0.95)": "torch:adam, tuned",
    "sign(m1 + g)": "optsmith:lion, tuned",
    "m1 + RMSprop*exp(2*Adam)": "mnist1, tuned",
    "cd*mom(g, 0.8)": "torch:momentum+cosine, tuned",
    "ema(g, 0.8)/sqrt(ema(g2, 0.99))": "torch:adam, tuned",
    "sign(mom(g, 0.98) + 7*g)": "optsmith:lion, tuned",
    "ema(g, 0.8)/sqrt(ema(g2, 0.99)) + 0.1*w": "torch:adamw, tuned",
    str(zoo["muon"].rule).replace("0.95", "0.8"): "torch:muon, tuned",
    # neither
    str(zoo["muon"].rule).replace("orth", "unit"): "",
    "-g": "",
    "g - m1": "",
    "m1 - 0.5*g": "",
    "m1 + 2*Adam": "",
    "g + sign(m1)": "",
    "m1 + m1(0.5)": "",
    "ld^2*g": "",
    "exp(ld)*m1": "",
    "drop(g)": "",
}


@pytest.mark.parametrize("text", NAMES)
def test_names_of_known_optimizers(text):
    assert known_name(Rule.parse(text)) == NAMES[text]


def test_every_rule_of_the_zoo_is_known():
    assert all(is_known(entry.rule) for entry in zoo.values())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ld*(m1 + 2*g)", "g*ld + 0.5*m1*ld"),
        ("g + m1 - 0.1*m1", "m1 + g"),
        ("m1/(2*(g + m2))", "3*m1/(m2 + g)"),
        ("m1/(1/ld)", "ld*m1"),
        ("m1/(2*g)", "m1/g"),
        ("(g + m1)*(m2 + 1)", "(m2 + 3)*(m1 + g)"),
        ("g^2", "g^3"),
    ],
)
def test_equal_structures(one, other):
    assert structure(Rule.parse(one)) == structure(Rule.parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [("g + m1", "g - m1"), ("g/m1", "m1/g"), ("g^2", "g^-2"), ("g*m1", "g + m1"), ("g - g", "g")],
)
def test_different_structures(one, other):
    assert structure(Rule.parse(one)) != structure(Rule.parse(other))


def test_a_users_operator_is_recognised_by_its_function_only():
    operators.register(Operator("half", 1, lambda x: x / 2))
    try:
        assert known_name(Rule.parse("half(g)")) == "torch:sgd"
        assert known_name(Rule.parse("g + half(m1)")) == ""
    finally:
        operators.remove("half")


def test_known_rules_take_no_place_among_the_proposals():
    texts = ["2*g", "m1 + 2*Adam", "g + 0.83*m1", "ld*m1", "elsewhere(g)"]
    every = [Evaluation(text, Status.OK, 1.0, 0.1) for text in texts]
    found = ["m1 + 2*Adam", "g + 0.83*m1", "elsewhere(g)"]
    assert [e.recipe for e in without_known(every)] == found
    assert [e.recipe for e in without_known(every, 2)] == found[:2]
    only_known = [every[0], every[3]]
    assert without_known(only_known) == only_known
    assert without_known(only_known, 1) == only_known[:1]
