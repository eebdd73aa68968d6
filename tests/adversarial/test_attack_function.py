"""Attacks with a rule and with PGD: steps, results and invalid arguments."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from optsmith import Operator, Rule, TaskError, operators
from optsmith.adversarial import Ball, attack, look, pgd

RULES = ["sign(g)", "g", "Adam", "m1 + m3", "attack1", "attack2", "attack3", "drop(sign(m1))"]


def small_net(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3)
        )


def some_images(count: int = 12, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(count, 2, 5, 5, generator=generator)
    return images, torch.randint(3, (count,), generator=generator)


class Halfspace(nn.Module):
    """A linear classifier of two classes; class 0 where `weights · x` is positive."""

    def __init__(self, weights):
        super().__init__()
        self.weights = weights

    def forward(self, images):
        side = (images * self.weights).flatten(1).sum(1)
        return torch.stack([side, -side], dim=1)


def distance(result, images, norm):
    change = (result.images - images).flatten(1)
    return change.abs().amax(1) if norm == "linf" else change.norm(dim=1)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("random_start", [False, True])
def test_images_stay_in_the_ball_and_the_box(rule, norm, random_start):
    images, labels = some_images()
    result = attack(
        small_net(), images, labels, rule, 0.3, 4, lr=0.5, norm=norm, random_start=random_start
    )
    assert distance(result, images, norm).max() <= 0.3 + 1e-6
    assert 0 <= result.images.min() <= result.images.max() <= 1
    assert result.losses.shape == (5, 12)
    assert result.losses.isfinite().all()


def test_the_sign_rule_reaches_the_corner_of_the_ball():
    """The loss of class 0 rises against the weights, so the optimum has a closed form."""
    weights = torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(1))
    images = torch.full((4, 1, 3, 3), 0.5)
    labels = torch.zeros(4, dtype=torch.int64)
    result = attack(Halfspace(weights), images, labels, "sign(g)", 0.1, 10, lr=0.02)
    torch.testing.assert_close(result.images, images - 0.1 * weights.sign())
    away = attack(Halfspace(weights), images, labels, "-sign(g)", 0.1, 10, lr=0.02)
    assert torch.equal(away.images, images)  # the best point of a descent is its start


def test_each_step_applies_the_rule_and_the_projection():
    images, labels = some_images()
    model, eps, lr = small_net().eval(), 0.2, 0.07
    result = attack(model, images, labels, "ld*m1", eps, 3, lr=lr)
    x, momentum, losses = images.clone(), torch.zeros_like(images), []
    for t in range(1, 5):
        x.requires_grad_()
        loss = cross_entropy(model(x), labels, reduction="none")
        losses.append(loss.detach())
        (gradient,) = torch.autograd.grad(loss.sum(), x)
        momentum = 0.9 * momentum + gradient
        with torch.no_grad():
            x = x + lr * (1 - t / 4) * momentum
            x = x.clamp(images - eps, images + eps).clamp(0, 1)
    torch.testing.assert_close(result.losses, torch.stack(losses))


@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.05), ("l2", 0.2)])
def test_the_best_point_visited_is_returned(norm, eps):
    images, labels = some_images(40)
    model = small_net().eval()
    result = attack(model, images, labels, "sign(g)", eps, 8, lr=0.5, norm=norm)
    seen = look(model, result.images, labels, gradient=False)
    assert torch.equal(seen.fooled, result.success)
    assert (result.success | ~result.success_at_end).all()
    held = ~result.success
    assert 0 < held.sum() < 40
    torch.testing.assert_close(seen.losses[held], result.losses.amax(0)[held])
    assert result.success_rate == result.success.sum() / 40


def test_a_non_finite_update_leaves_the_pixel_unchanged():
    images, labels = some_images()
    model = small_net().eval()
    assert torch.equal(attack(model, images, labels, "log(g - g)", 0.2, 3, lr=1.0).images, images)
    rising = look(model, images, labels).slopes > 0
    # log|sign(g) - 1| is -inf where the gradient is positive, log 2 elsewhere.
    moved = attack(model, images, labels, "log(sign(g) - 1)", 0.2, 1, lr=0.05)
    lower = attack(model, images, labels, "-log(sign(g) - 1)", 0.2, 1, lr=0.05)
    for result, up in ((moved, 1), (lower, -1)):
        step = (images + up * 0.05 * math.log(2)).clamp(0, 1)
        expected = torch.where(rising, images, step)
        taken = (result.images != images).flatten(1).any(1)
        torch.testing.assert_close(result.images[taken], expected[taken])
    assert (lower.images != images).any()


@pytest.mark.parametrize("rule", ["sign(g)", "drop(m1)", "attack3"])
def test_results_depend_neither_on_batch_size_nor_on_other_images(rule):
    images, labels = some_images(11)
    settings = {"lr": 0.1, "random_start": True, "seed": 3}
    whole = attack(small_net(), images, labels, rule, 0.2, 5, **settings)
    parts = attack(small_net(), images, labels, rule, 0.2, 5, batch_size=4, **settings)
    torch.testing.assert_close(whole.images, parts.images)
    torch.testing.assert_close(whole.losses, parts.losses)


def test_an_image_is_a_tensor_for_operators_of_whole_tensors():
    operators.register(Operator("own_unit", 1, lambda x: x / x.norm(), scope="tensor"))
    try:
        test_results_depend_neither_on_batch_size_nor_on_other_images("own_unit(m1)")
        images, labels = some_images(3)
        moved = attack(small_net(), images, labels, "own_unit(g)", 9.0, 1, lr=1e-3).images - images
    finally:
        operators.remove("own_unit")
    assert moved.flatten(1).norm(dim=1).tolist() == pytest.approx([1e-3] * 3, rel=1e-2)


@pytest.mark.parametrize("rule", ["sign(g)", "drop(m1)", "Adam"])
def test_early_exit_saves_steps_with_the_same_successes(rule):
    images, labels = some_images(40)
    settings = {"lr": 0.03, "seed": 5}
    full = attack(small_net(), images, labels, rule, 0.2, 6, **settings)
    short = attack(small_net(), images, labels, rule, 0.2, 6, early_exit=True, **settings)
    assert torch.equal(full.success, short.success)
    assert torch.equal(short.success, short.success_at_end)
    visited = short.losses.isfinite()
    assert not visited.all()
    torch.testing.assert_close(short.losses[visited], full.losses[visited])
    assert visited[:, ~short.success].all()


def test_seeds_decide_the_random_start_and_the_masks():
    images, labels = some_images()
    for rule, random_start in (("sign(g)", True), ("drop(g)", False)):
        one, two, three = (
            attack(small_net(), images, labels, rule, 0.2, 3, lr=0.1, random_start=random_start,
                   seed=seed).losses
            for seed in (0, 0, 1)
        )  # fmt: skip
        assert torch.equal(one, two)
        assert not torch.equal(one, three)


def test_mode_and_gradients_of_the_model_are_unchanged():
    images, labels = some_images()
    model = small_net()
    model[2].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    attack(model, images, labels, "sign(g)", 0.1, 2, lr=0.1, random_start=True)
    assert [m.training for m in model.modules()] == [True, True, True, False, True, True]
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())


def test_pgd_is_the_sign_rule():
    images, labels = some_images()
    settings = {"lr": 0.04, "random_start": True, "seed": 2}
    one = pgd(small_net(), images, labels, 0.1, 4, **settings)
    two = attack(small_net(), images, labels, Rule.parse("sign(g)"), 0.1, 4, **settings)
    assert torch.equal(one.images, two.images)


def test_pgd_in_l2_takes_steps_of_the_given_size():
    images = torch.full((5, 2, 5, 5), 0.5)
    result = pgd(
        small_net(), images, torch.zeros(5).long(), 1.0, 1, lr=0.25, norm="l2", random_start=False
    )
    moved = (result.images != images).flatten(1).any(1)
    assert moved.any()
    assert distance(result, images, "l2")[moved].tolist() == pytest.approx([0.25] * moved.sum())


def test_any_function_of_images_can_be_attacked():
    images, labels = some_images()
    result = attack(lambda x: x.flatten(1)[:, :3], images, labels, "sign(g)", 0.5, 5, lr=0.2)
    assert result.success_rate > 0.5


def test_half_precision_images_stay_half_precision():
    images, labels = some_images()
    result = attack(
        small_net().bfloat16(), images.bfloat16(), labels, "Adam", 0.1, 2, lr=10.0, norm="linf"
    )
    assert result.images.dtype == torch.bfloat16


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_random_points_fill_the_ball(norm):
    centres = torch.full((200, 1, 2, 2), 0.5)
    points = Ball(centres, 0.2, norm).random(torch.Generator().manual_seed(0))
    change = (points - centres).flatten(1)
    sizes = change.abs() if norm == "linf" else change.norm(dim=1)
    assert 0.19 < sizes.max() <= 0.2 + 1e-6
    assert change.mean().abs() < 0.02
    assert sizes.min() < 0.1


IMAGES, LABELS = some_images(3)
GOOD = {"images": IMAGES, "labels": LABELS, "rule": "g", "eps": 0.1, "steps": 2, "lr": 0.1}
BAD = [
    ({"images": IMAGES * 255}, r"images must be numbers in \[0, 1\], not from .* to 25"),
    ({"images": IMAGES - 0.5}, r"not from -0\."),
    ({"images": IMAGES * math.nan}, "not from nan"),
    ({"images": (IMAGES * 255).byte()}, "divide by 255"),
    ({"images": IMAGES[0]}, r"be of shape \(count, channels, height, width\), not \(2, 5, 5\)"),
    ({"images": IMAGES[:0], "labels": LABELS[:0]}, r"not \(0, 2, 5, 5\)"),
    ({"labels": LABELS[:2]}, r"labels must be 3 integers, one per image.* of shape \(2,\)"),
    ({"labels": LABELS.float()}, "not torch.float32"),
    ({"labels": LABELS - 5}, "labels must be class indices from 0, not -"),
    (
        {"labels": torch.tensor([0, 1, 3])},
        r"the model has 3 classes, so labels must be 0 … 2, not 3",
    ),
    ({"eps": 0}, "eps, the radius of an attack, must be above 0"),
    ({"eps": math.nan}, "eps"),
    ({"steps": 0}, "steps must be a positive integer, not 0"),
    ({"steps": 2.5}, "steps must be a positive integer"),
    ({"lr": 0.0}, "lr must be above 0"),
    ({"norm": "l7"}, 'norm must be one of linf, l2, not "l7"'),
    ({"batch_size": 0}, "batch_size must be a positive integer"),
    ({"model": lambda x: x}, r"of shape \(3, classes\), one row per image, not \(3, 2, 5"),
    ({"model": lambda x: "no"}, "not str"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_invalid_arguments_are_refused_in_one_sentence(change, message):
    with pytest.raises(TaskError, match=message) as caught:
        attack(**{"model": small_net(), **GOOD, **change})
    assert "\n" not in str(caught.value)
