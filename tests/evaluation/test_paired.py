"""Paired comparisons: statistics, looks, diverged runs."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from optsmith.evaluation import Evaluation, Status, compare_evaluations, compare_paired
from optsmith.task import Metric, Objective

NAN = math.nan
LOOKS = (8, 16, 32)
ACCURACY = Metric("accuracy", unit="%")


def drawn(seeds, change=0.0, paired=0.03, seed=0):
    """Return losses of two recipes; most of their noise is common."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(seeds)
    one, other = paired / math.sqrt(2) * rng.standard_normal((2, seeds))
    return (np.exp(common + one) * (1 + change)).tolist(), np.exp(common + other).tolist()


def test_a_comparison_is_a_paired_t_test_of_log_ratios():
    one, other = drawn(8, -0.05)
    found = compare_paired(one, other)
    reference = stats.ttest_rel(np.log(one), np.log(other))
    interval = reference.confidence_interval(0.95)
    assert found.p == pytest.approx(reference.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(np.expm1([interval.low, interval.high])))
    assert found.change == pytest.approx(np.expm1(np.mean(np.log(one) - np.log(other))))
    assert found.seeds == 8
    assert found.better("minimize")
    assert found.better("maximize") is False


def test_values_that_are_not_all_positive_are_compared_by_differences():
    one, other = [-1.0, 1.0, 2.0, 3.0, 4.5, 5.0], [-2.0, 0.5, 1.0, 2.0, 3.0, 4.0]
    found = compare_paired(one, other)
    assert found.p == pytest.approx(stats.ttest_rel(one, other).pvalue)
    assert found.change == pytest.approx(np.subtract(one, other).mean() / np.abs(other).mean())


@pytest.mark.parametrize("looks", [1, 2, 3, 4, 5, 8])
def test_the_interval_excludes_zero_exactly_when_it_is_decided(looks):
    decided = set()
    for seed in range(60):
        found = compare_paired(*drawn(8, -0.02, seed=seed), looks)
        assert found.decided == (found.low > 0 or found.high < 0)
        decided.add(found.decided)
    assert decided == {True, False}


def test_more_looks_need_more_evidence():
    found = [compare_paired(*drawn(8, -0.03), looks) for looks in range(1, 9)]
    assert all(a.p < b.p for a, b in pairwise(found))
    assert all(a.high - a.low < b.high - b.low for a, b in pairwise(found))


@pytest.mark.parametrize("seeds", [0, 1, 2, 4])
def test_few_seeds_make_no_claim(seeds):
    one, other = drawn(seeds, -0.5, paired=1e-4)
    found = compare_paired(one, other)
    assert not found.decided
    assert found.better("minimize") is None
    assert found.seeds == seeds
    assert math.isnan(found.p)
    assert math.isnan(found.low) == (seeds < 2)
    assert compare_paired(*drawn(5, -0.5, paired=1e-4)).decided


def test_without_noise_every_difference_beyond_rounding_is_one():
    other = [1.0, 2.0, 4.0, 8.0, 16.0]
    assert compare_paired([0.5 * x for x in other], other).decided
    for factor in (1.0, 1 + 1e-8):
        assert not compare_paired([factor * x for x in other], other).decided


def test_extreme_values_have_a_change():
    found = compare_paired([1e300] * 6, [1e-300, 1e-299, 1e-301] * 2)
    assert found.better("minimize") is False
    assert found.change > 1e300


def test_different_numbers_of_values_are_not_paired():
    with pytest.raises(ValueError, match="cannot be paired: 2 and 1"):
        compare_paired([1.0, 2.0], [1.0])


# --- diverged runs --------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [NAN, math.inf])
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_recipe_that_diverged_is_worse_on_that_seed(bad, direction):
    one = [0.9, 0.8, 0.95, 0.9, 0.9, 0.8, 0.9, 0.9]
    if direction == "maximize":
        one = [1 / x for x in one]
    other = [1.0] * 6 + [bad, 1.0]
    found = compare_paired(one, other, direction=direction)
    assert (found.seeds, found.diverged, found.other_diverged) == (8, 0, 1)
    assert found.p == pytest.approx(2 / 2**8)  # better on all of 8 seeds
    assert found.better(direction) is True
    assert math.isnan(found.low)
    assert found.change == pytest.approx(-0.1 if direction == "minimize" else 1 / 9)
    back = compare_paired(other, one, direction=direction)
    assert back.better(direction) is False


def test_a_recipe_that_diverged_more_often_is_never_better():
    one = [0.9] * 31 + [NAN]
    found = compare_paired(one, [1.0] * 32)
    assert not found.decided
    assert (found.diverged, found.other_diverged) == (1, 0)
    assert compare_paired(one, [*[1.0] * 31, NAN]).better("minimize")  # both diverged on that seed
    assert compare_paired(one, [NAN, *[1.0] * 31]).better("minimize")  # as often


def test_a_recipe_that_always_diverges_is_worse():
    found = compare_paired([NAN] * 8, [1.0] * 8)
    assert math.isnan(found.change)
    assert found.better("minimize") is False
    nothing = compare_paired([NAN] * 8, [NAN] * 8)
    assert not nothing.decided
    assert nothing.seeds == 8


# --- evaluations ----------------------------------------------------------------------------------


def evaluation(recipe, scores, **metrics):
    return Evaluation(
        recipe,
        Status.OK,
        sum(scores.values()) / len(scores),
        0.1,
        seeds=tuple(scores),
        scores=tuple(scores.values()),
        metrics=metrics,
    )


def test_evaluations_are_paired_by_seed_not_by_position():
    one = evaluation("m1", {1: 1.0, 2: 2.0, 3: 3.0, 9: 100.0})
    other = evaluation("g", {3: 6.0, 7: 1.0, 2: 4.0, 1: 2.0})
    found = compare_evaluations(one, other, Objective())
    assert found.seeds == 3
    assert (found.change, found.low, found.high) == pytest.approx((-0.5, -0.5, -0.5))
    assert compare_evaluations(one, evaluation("g", {4: 1.0}), Objective()).seeds == 0


def test_metrics_are_compared_with_their_direction():
    one = evaluation("m1", {1: 1.0, 2: 2.0}, accuracy=(0.5, 0.6))
    other = evaluation("g", {2: 1.0, 1: 2.0}, accuracy=(NAN, 0.4))
    found = compare_evaluations(one, other, ACCURACY)
    assert found.change == pytest.approx(0.25)
    assert found.other_diverged == 1
    assert compare_evaluations(one, other, Metric("unknown")).seeds == 0
    untuned = Evaluation("ld*g", Status.DIVERGED)
    assert compare_evaluations(untuned, one, Objective()).seeds == 0


# --- simulated studies; benchmarks/claims.py has more of them -------------------------------------


def share_of_claims(gain, looks, studies, noise, corrected=True):
    rng = np.random.default_rng(7)
    claims = 0
    for _ in range(studies):
        opponents = noise(rng, (6, 2 + looks[-1]))
        opponent = opponents[opponents[:, :2].mean(axis=1).argmin(), 2:]  # on selection seeds
        ratio = 0.03 / math.sqrt(2) * (noise(rng, (looks[-1],)) - opponent)
        one, other = np.exp(ratio) * (1 - gain), np.ones(looks[-1])
        claims += any(
            compare_paired(one[:n], other[:n], len(looks) if corrected else 1).decided
            for n in looks
        )
    return claims / studies


NOISES = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "heavy-tailed": lambda rng, shape: rng.standard_t(3, shape) / math.sqrt(3),
    "skewed": lambda rng, shape: rng.lognormal(0, 0.5, shape) / 0.604,
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("looks", [LOOKS, (5,), (8,)])
def test_equal_recipes_are_told_apart_in_at_most_five_percent(noise, looks):
    # The standard error of a share of 5 % of 1500 studies is 0.6 %.
    assert share_of_claims(0.0, looks, 1500, NOISES[noise]) < 0.065


def test_without_the_correction_for_looks_there_would_be_more():
    assert share_of_claims(0.0, LOOKS, 500, NOISES["normal"], corrected=False) > 0.08


@pytest.mark.parametrize("noise", NOISES)
def test_a_difference_as_large_as_the_noise_is_found(noise):
    assert share_of_claims(0.03, LOOKS, 200, NOISES[noise]) > 0.9
