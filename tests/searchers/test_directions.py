"""Directions of hidden matrices."""

from __future__ import annotations

import pytest
import torch

from optsmith import Rule, RuleOptimizer, spaces
from optsmith.optim import Baseline
from optsmith.screening import Screen
from optsmith.searchers._directions import compositions

MODERN = spaces["modern"]
MUON = Baseline.parse("torch:muon+cosine").as_rule().rule


def test_the_rule_comes_first_and_every_composition_once():
    rules = compositions(MUON, MODERN)
    assert rules[0] == MUON
    assert len(set(rules)) == len(rules) > 20
    texts = [str(rule) for rule in rules]
    assert any("0.2*rows(orth(g + " in text for text in texts)
    assert any("0.2*(fan*orth(rows(g + " in text for text in texts)
    assert any("0.2*unit(whiten(orth(g + " in text for text in texts)


def test_what_is_not_the_direction_stays():
    other = "ema(g)/sqrt(|ema(g2, 0.999)|)) + 0.01*w)"
    assert all(str(rule).endswith(other) for rule in compositions(MUON, MODERN))


def test_the_screen_refuses_few_compositions():
    rules = compositions(MUON, MODERN)
    refused = [rule for rule in rules if not Screen()(rule).ok]
    assert len(refused) <= 0.1 * len(rules)


@pytest.mark.parametrize("rule", compositions(MUON, MODERN)[1:], ids=str)
def test_updates_of_all_compositions_have_the_same_size(rule):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(24, 24, bias=False) for _ in range(3)))
    hidden = model[1].weight
    optimizer = RuleOptimizer(model, rule, lr=1.0, total_steps=100)
    for _ in range(30):
        before = hidden.detach().clone()
        for parameter in model.parameters():
            parameter.grad = torch.randn(24, 24) * torch.logspace(-2, 0, 24)
        optimizer.step()
    size = (hidden.detach() - before).square().mean().sqrt().item()
    assert size == pytest.approx(0.2, rel=0.5)


def test_rules_without_roles_or_without_orth_have_no_other_directions():
    for text in ("cd*m1", "hidden(m1, Adam)"):
        assert compositions(Rule.parse(text), MODERN) == [Rule.parse(text)]


def test_a_space_without_an_operator_has_no_compositions_with_it():
    rules = compositions(MUON, MODERN.without("whiten"))
    assert not any("whiten" in str(rule) for rule in rules)
    assert len(rules) > 10
