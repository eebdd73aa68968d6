"""Directions of hidden matrices."""

from __future__ import annotations

import pytest
import torch

from optsmith import Rule, RuleOptimizer, spaces
from optsmith.optim import Baseline
from optsmith.screening import Screen
from optsmith.searchers._directions import (
    BEST,
    DIRECTIONS,
    EFFORTS,
    FORMS,
    ORTH,
    Contenders,
    Form,
    with_form,
)

MODERN = spaces["modern"]
MUON = Baseline.parse("torch:muon+cosine").as_rule().rule
EVERY = {ways: with_form(MUON, Form(ways), MODERN) for ways in DIRECTIONS}
RESTS = [with_form(MUON, form, MODERN) for form in FORMS if form.rest]


def scored(contenders, loss):
    """Tell the losses of the current round, of rules."""
    contenders.tell({c.id: loss(c.rule) for c in contenders.candidates()})


def test_directions_are_compositions():
    assert len(set(EVERY.values())) == len(EVERY) > 30
    assert "0.2*rows(orth(g + " in str(EVERY["rows", ORTH])
    assert "0.2*(fan*orth(rows(g + " in str(EVERY[ORTH, "rows"])
    assert "0.2*unit(whiten(orth(rows(g + " in str(EVERY["whiten", ORTH, "rows"])


def test_a_factor_is_one_of_hidden_matrices():
    rule = with_form(MUON, Form(("rows", ORTH), 1.5), MODERN)
    assert "hidden(0.30000000000000004*rows(" in str(rule)


def test_what_is_not_the_direction_stays():
    other = "ema(g)/sqrt(|ema(g2, 0.999)|)) + 0.01*w)"
    assert all(str(rule).endswith(other) for rule in EVERY.values())


def test_the_screen_refuses_few_compositions():
    rules = [*EVERY.values(), *RESTS]
    refused = [rule for rule in rules if not Screen()(rule).ok]
    assert len(refused) <= 0.1 * len(rules)


@pytest.mark.parametrize("rule", RESTS, ids=str)
def test_the_rest_has_the_momentum_of_hidden_matrices_and_updates_of_a_given_size(rule):
    assert str(rule).startswith(str(MUON).partition(", ema")[0])
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.zeros(24, 24))
    groups = [{"params": [weight], "role": "output"}]
    optimizer = RuleOptimizer(groups, rule, lr=1.0, total_steps=100)
    for _ in range(30):
        before = weight.detach().clone()
        weight.grad = torch.randn(24, 24) * torch.logspace(-2, 0, 24)
        optimizer.step()
    size = (weight.detach() - before).square().mean().sqrt().item()
    wanted = next(
        form.size for form in FORMS if form.rest and with_form(MUON, form, MODERN) == rule
    )
    assert size == pytest.approx(wanted, rel=0.5)


@pytest.mark.parametrize("rule", EVERY.values(), ids=str)
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
        rule = Rule.parse(text)
        assert all(with_form(rule, form, MODERN) is None for form in FORMS)
        contenders = Contenders(rule, 0.1, MODERN)
        assert len(contenders) == 0
        scored(contenders, lambda rule: 1.0)
        assert contenders.best == rule
        assert not contenders.candidates()


def test_a_space_without_an_operator_has_no_direction_with_it():
    space = MODERN.without("whiten")
    for ways in DIRECTIONS:
        assert (with_form(MUON, Form(ways), space) is None) == ("whiten" in ways)


@pytest.mark.parametrize("effort", EFFORTS)
def test_the_best_ways_before_and_after_are_combined(effort):
    contenders = Contenders(MUON, 0.1, MODERN, effort)
    before, after = "orth(whitenr(", "whiten(orth("

    def loss(rule):
        return -float(before in str(rule)) - 2 * (after in str(rule))

    scored(contenders, loss)
    most = contenders.cost
    rules = [candidate.rule for candidate in contenders.candidates()]
    assert len(rules) <= most
    assert rules[0] == MUON
    assert len(rules) == effort.blocks * (1 + (BEST + 1) * len(effort.second))
    assert any("unit(whiten(orth(whitenr(" in str(rule) for rule in rules)


def test_the_rule_itself_wins_if_nothing_is_better():
    contenders = Contenders(MUON, 0.1, MODERN)
    for _ in range(2):
        scored(contenders, lambda rule: float(rule != MUON))
    assert contenders.best == MUON
    assert not contenders.candidates()


def test_directions_beyond_the_limits_are_not_compared():
    contenders = Contenders(MUON, 0.1, MODERN, allows=lambda rule: "whiten" not in str(rule))
    assert 0 < len(contenders) < len(Contenders(MUON, 0.1, MODERN))
    assert not any("whiten" in str(c.rule) for c in contenders.candidates())


def test_a_loss_that_is_not_known_never_wins():
    contenders = Contenders(MUON, 0.1, MODERN)
    scored(contenders, lambda rule: 1.0)
    scored(contenders, lambda rule: 1.0 if rule == MUON else float("inf"))
    assert contenders.best == MUON
