"""APGD: checkpoints, step sizes, and comparison with the reference implementation."""

from __future__ import annotations

from statistics import mean

import pytest
import torch
from torch import nn

from optsmith.adversarial import apgd, pgd, robust_digits
from optsmith.adversarial._apgd import ApgdStepper, checkpoints
from optsmith.adversarial._ball import Ball
from optsmith.adversarial._look import Seen


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        # One cache directory for all test files, so that the network is trained once.
        patch.setenv("OPTSMITH_CACHE", str(tmp_path_factory.getbasetemp() / "robust"))
        return robust_digits()


def test_checkpoints_match_the_paper():
    assert sorted(checkpoints(100)) == [23, 42, 58, 71, 81, 88, 94, 100]
    assert sorted(checkpoints(20)) == [5, 9, 12, 15, 17, 18, 19, 20]
    assert checkpoints(1) == {1}


class Peak(nn.Module):
    """The loss of class 0 is highest at one point inside the ball."""

    def __init__(self, peak):
        super().__init__()
        self.peak = peak

    def forward(self, images):
        margin = (images - self.peak).abs().flatten(1).mean(1)
        return torch.stack([margin, -margin], dim=1)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_steps_shrink_until_the_peak_is_found(norm):
    images = torch.full((3, 1, 4, 4), 0.5)
    generator = torch.Generator().manual_seed(0)
    peak = images[:1] + 0.05 * (2 * torch.rand(1, 1, 4, 4, generator=generator) - 1)
    result = apgd(Peak(peak), images, torch.zeros(3).long(), 0.3, 100, norm=norm)
    assert (result.images - peak).abs().amax() < 0.02
    first = apgd(Peak(peak), images, torch.zeros(3).long(), 0.3, 10, norm=norm)
    assert (first.images - peak).abs().amax() > (result.images - peak).abs().amax()


def drive(losses: list[list[float]], steps: int) -> tuple[ApgdStepper, list[list[float]]]:
    """Run a stepper on given losses, one row per step; return the step sizes after each step."""
    count = len(losses[0])
    points = torch.full((count, 1, 1, 1), 0.5)
    ball = Ball(points, 0.1)
    stepper = ApgdStepper(points, 0.1, steps)
    lengths = []
    for t, row in enumerate(losses, start=1):
        seen = Seen(torch.tensor(row), torch.zeros(count).bool(), torch.ones_like(points))
        points = stepper.step(t, points, seen, ball)
        lengths.append([round(length, 6) for length in stepper.lengths.tolist()])
    return stepper, lengths


def test_step_sizes_are_halved_per_image():
    """Of 20 steps, the first checkpoints are after steps 5 and 9."""
    rising = [float(i) for i in range(11)]
    mostly = [0, 1, 2, 3, 4, 3.5, 6, 7, 8, 9, 10]  # 4 of 5 rises: 80 % is enough
    falling = [-float(i) for i in range(11)]
    _, lengths = drive([list(row) for row in zip(rising, mostly, falling, strict=True)], 20)
    assert lengths[4] == [0.2, 0.2, 0.2]  # no check before the sixth step
    assert lengths[5] == [0.2, 0.2, 0.1]
    assert lengths[9] == [0.2, 0.2, 0.05]


def test_a_step_size_without_progress_is_halved():
    """Three of four steps increase the loss after the first checkpoint, but not above the best."""
    losses = [0, 1, 2, 3, 4, 9, 5, 6, 7, 8, 8]
    _, lengths = drive([[float(loss)] for loss in losses], 20)
    assert lengths[8] == [0.2]
    assert lengths[9] == [0.1]


def test_an_image_is_reset_to_its_best_point_when_halved():
    losses = [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    stepper, lengths = drive([[loss] for loss in losses], 20)
    assert lengths[-1] == [0.1]
    assert (
        stepper.before.item() == 0.5
    )  # the last step started from the initial point, which was best


def test_early_exit_gives_the_same_successes(digits):
    model, (images, labels) = digits
    some = images[:60], labels[:60]
    full = apgd(model, *some, 0.15, 15)
    short = apgd(model, *some, 0.15, 15, early_exit=True, batch_size=25)
    assert torch.equal(full.success, short.success)
    assert 0 < full.success_rate < 1


def test_apgd_is_at_least_as_good_as_pgd(digits):
    model, (images, labels) = digits
    images, labels = images[:400], labels[:400]
    plain, auto = (f(model, images, labels, 0.15, 20) for f in (pgd, apgd))
    assert auto.success_rate >= plain.success_rate
    assert auto.losses.amax(0).mean() > plain.losses.amax(0).mean()
    assert (auto.images - images).abs().max() <= 0.15 + 1e-6


@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.15), ("l2", 0.6)])
def test_apgd_succeeds_as_often_as_the_reference(digits, norm, eps):
    """Success rates vary by about 1 % between seeds, best losses by far less."""
    base = pytest.importorskip("pyautoattack.autopgd_base", reason="pyautoattack not installed")
    model, (images, labels) = digits
    images, labels = images[:300], labels[:300]
    names, seeds = {"linf": "Linf", "l2": "L2"}, range(3)
    theirs = base.APGDAttack(model, n_iter=20, norm=names[norm], eps=eps, device="cpu")
    theirs.init_hyperparam(images)
    rates, losses = [], []
    for seed in seeds:
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            _, right, best, _ = theirs.attack_single_run(images, labels)
        rates.append(1 - right.double().mean().item())
        losses.append(best.mean().item())
    ours = [apgd(model, images, labels, eps, 20, norm=norm, seed=seed) for seed in seeds]
    assert 0.2 < mean(rates) < 0.9
    assert mean(r.success_rate for r in ours) == pytest.approx(mean(rates), abs=0.015)
    best = mean(r.losses.amax(0).mean().item() for r in ours)
    assert best == pytest.approx(mean(losses), rel=0.01)
