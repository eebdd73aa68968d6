"""Rules of the zoo compared with reference implementations over 50 steps."""

from __future__ import annotations

import pytest
import torch

published = pytest.importorskip("published", exc_type=ImportError)  # needs pytorch_optimizer

from optsmith import RuleOptimizer, TaskError, zoo  # noqa: E402

CASES, SCHEDULES = published.CASES, published.SCHEDULES


@pytest.mark.parametrize("decay", SCHEDULES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_is_its_reference(case, decay):
    if case.rule == "muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("torch has no Muon")
    found = published.differences(case, decay)
    assert set(found) == set(published.KINDS)
    assert max(found.values()) <= case.tolerance


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", ["adamw", "nadam", "radam", "lamb", "cautious-adamw", "muon"])
def test_rules_are_the_same_in_every_way_of_running_them(name, foreach):
    case = next(case for case in CASES if case.rule == name)
    assert max(published.differences(case, "cd", foreach=foreach).values()) <= case.tolerance


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_reference_takes_steps_of_its_own(case):
    """A comparison of weights that do not move would show nothing."""
    network = published.model(case.dtype)
    before = [p.detach().clone() for p in network.parameters()]
    optimizer = case.make(network, 0.02)
    for p in network.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    for p, old in zip(network.parameters(), before, strict=True):
        assert (p != old).any()


def test_nadam_can_be_written_exactly():
    case = published.Case(published.EXACT_NADAM, "torch NAdam", published.of(torch.optim.NAdam))
    assert max(published.differences(case).values()) <= 1e-13


def test_lamb_without_weight_decay_is_that_of_the_package():
    """Its bias corrections cancel; it clips norms at 10 and adds eps to the norm of a step."""
    rule = str(zoo["lamb"].rule).replace(" + 0.01*w", "")
    ours, theirs = published.model(torch.float64), published.model(torch.float64)
    one = RuleOptimizer(ours, rule, 0.02)
    settings = {"lr": 0.02, "eps": 1e-9, "weight_decay": 0.0, "adam_debias": True}
    two = published.pytorch_optimizer.Lamb(theirs.parameters(), **settings)
    torch.nn.init.ones_(ours[1].bias)  # the package's first step from 0 has no bias correction
    torch.nn.init.ones_(theirs[1].bias)
    random = torch.Generator().manual_seed(0)
    for _ in range(published.STEPS):
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            p.grad = torch.randn(p.shape, generator=random, dtype=torch.float64)
            q.grad = p.grad.clone()
        one.step()
        two.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-6)


def test_shampoo_has_the_direction_of_the_package_s():
    """With a long average that has its roots at every step, for a matrix."""
    ours, theirs = published.model(torch.float64)[1], published.model(torch.float64)[1]
    one = RuleOptimizer([ours.weight], "whiten(g, g, 0.9999999, 1)", 0.02)
    two = published.pytorch_optimizer.Shampoo([theirs.weight], lr=0.02, matrix_eps=1e-12)
    random = torch.Generator().manual_seed(0)
    for _ in range(published.STEPS):
        before = [ours.weight.detach().clone(), theirs.weight.detach().clone()]
        ours.weight.grad = torch.randn(ours.weight.shape, generator=random, dtype=torch.float64)
        theirs.weight.grad = ours.weight.grad.clone()
        one.step()
        two.step()
    steps = [
        (p.detach() - b).flatten()
        for p, b in zip((ours.weight, theirs.weight), before, strict=True)
    ]
    assert torch.nn.functional.cosine_similarity(*steps, dim=0) > 1 - 1e-6


def test_muon_needs_roles():
    network = published.model(torch.float64)
    with pytest.raises(TaskError, match="pass the model, or parameter groups with a role"):
        RuleOptimizer(network.parameters(), zoo["muon"].rule, 0.02)
