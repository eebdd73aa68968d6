"""The values of sub-rules that the probe keeps."""

from __future__ import annotations

import random

import numpy as np
import torch

from optsmith import Operator, Rule, Screen, operators, spaces
from optsmith.screening._history import history, short_history
from optsmith.screening._known_values import Known
from optsmith.screening._probe import Probe


def sub_rule(text):
    return Rule.parse(text).operators


def test_the_value_used_longest_ago_is_forgotten():
    known = Known(2)
    values = {text: torch.tensor([float(i)]) for i, text in enumerate(("g", "m1", "w"))}
    known.add(sub_rule("g"), False, values["g"])
    known.add(sub_rule("m1"), False, values["m1"])
    assert known.get(sub_rule("g"), False) is values["g"]
    known.add(sub_rule("w"), False, values["w"])
    assert len(known) == 2
    assert known.get(sub_rule("m1"), False) is None
    assert known.get(sub_rule("g"), False) is values["g"]


def test_vectors_are_kept_apart_only_where_shapes_matter():
    known, value = Known(8), torch.zeros(1)
    for text in ("ema(g)", "orth(g)"):
        known.add(sub_rule(text), False, value)
    assert known.get(sub_rule("ema(g)"), True) is value
    assert known.get(sub_rule("orth(g)"), True) is None


def test_a_redefined_operator_is_not_known():
    known = Known(8)
    operators.register(Operator("own", 1, lambda x: x + 1))
    known.add(sub_rule("ema(own(g))"), False, torch.zeros(1))
    operators.remove("own")
    operators.register(Operator("own", 1, lambda x: x + 2))
    try:
        assert known.get(sub_rule("ema(own(g))"), False) is None
    finally:
        operators.remove("own")


def test_memory_is_limited_with_any_number_of_constants():
    probe = Probe([short_history(history())], 0)
    for i in range(1500):
        probe.run(Rule.parse(f"0.{i + 1}*m1"))
    assert len(probe._known[False]) == probe._known[False].limit


def test_results_do_not_depend_on_what_ran_before():
    rng = random.Random(5)
    rules = [spaces["modern"].sample(rng) for _ in range(150)]
    screen = Screen()
    first = [screen(rule).fingerprint for rule in rules]
    assert [screen(rule).fingerprint for rule in rules[::-1]][::-1] == first
    fresh = Probe([short_history(history())], 0)
    for rule in rules[:20]:
        if all(operator.name != "hidden" for operator in rule.operators):
            one, two = fresh.run(rule)[0], Probe([short_history(history())], 0).run(rule)[0]
            np.testing.assert_array_equal(one, two)
