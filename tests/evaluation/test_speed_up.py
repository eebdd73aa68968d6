"""Speed-up: the share of steps at which a recipe matches another one's full run."""

import math

import numpy as np
import pytest

from optsmith.evaluation import SpeedUp, speed_up
from optsmith.task import Objective

HORIZONS = (0.3, 0.5, 0.7, 1.0)
HIGHER = Objective("accuracy", "maximize", "last", "%")


def loss(share, power=0.3):
    return 0.2 + share**-power


def curves(share, noise, seeds=8, seed=0):
    """Return noisy scores of a power law, and the target that is matched at a share."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(seeds)

    def drawn(part):
        return (loss(part) * np.exp(common + noise * rng.standard_normal(seeds))).tolist()

    return {horizon: drawn(horizon) for horizon in HORIZONS}, drawn(share)


@pytest.mark.parametrize("share", [0.35, 0.5, 0.62, 0.71, 0.9, 1.0])
def test_the_share_of_a_power_law_is_found(share):
    found = speed_up(*curves(share, 0.0), Objective())
    assert found.share == pytest.approx(share, rel=0.02)
    assert found.low == pytest.approx(found.share, rel=1e-3)
    assert found.high == pytest.approx(found.share, rel=1e-3)
    assert found.seeds == 8


def test_a_larger_score_can_be_better():
    scores, target = curves(0.6, 0.0)
    inverse = {h: [1 / value for value in values] for h, values in scores.items()}
    found = speed_up(inverse, [1 / value for value in target], HIGHER)
    assert found.share == pytest.approx(speed_up(scores, target, Objective()).share)


def test_scores_that_are_not_positive_are_compared_by_differences():
    scores, target = curves(0.6, 0.0)
    shifted = {h: [value - 50 for value in values] for h, values in scores.items()}
    found = speed_up(shifted, [value - 50 for value in target], Objective())
    assert found.share == pytest.approx(0.6, rel=0.02)


@pytest.mark.parametrize("share", [0.4, 0.71])
def test_the_interval_contains_the_share_in_95_percent(share):
    cases = [speed_up(*curves(share, 0.02, seed=seed), Objective()) for seed in range(200)]
    covered = sum(case.low <= share <= case.high for case in cases)
    assert 0.9 < covered / 200 < 0.995  # its standard error is 1.5 %
    assert np.median([case.share for case in cases]) == pytest.approx(share, abs=0.02)


def test_matching_at_the_shortest_horizon_is_a_bound():
    scores, target = curves(0.2, 0.01)
    found = speed_up(scores, target, Objective())
    assert (found.share, found.low, found.high, found.bound) == (0.3, 0.0, 0.3, "below")


def test_not_matching_at_full_length_is_a_bound():
    scores, target = curves(1.6, 0.01)
    assert speed_up(scores, target, Objective()) == SpeedUp(1.0, 1.0, 1.0, "above", 8)


def test_ends_of_the_interval_beyond_the_horizons_are_0_and_1():
    wide = speed_up(*curves(0.6, 1.0), Objective())
    assert (wide.low, wide.high) == (0.0, 1.0)


def test_noise_that_makes_longer_training_worse_is_smoothed():
    scores = {0.3: [1.3], 0.5: [1.0], 0.7: [1.1], 1.0: [0.9]}
    found = speed_up(scores, [1.05], Objective())
    assert 0.4 < found.share < 0.75
    assert found.bound == ""
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_horizons_at_which_a_run_diverged_do_not_match():
    scores, target = curves(0.2, 0.0)
    scores[0.5][3] = math.nan
    found = speed_up(scores, target, Objective())
    assert (found.share, found.bound) == (0.7, "below")
    scores[1.0][0] = math.inf
    assert speed_up(scores, target, Objective()).bound == "above"


def test_seeds_on_which_the_target_diverged_are_left_out():
    scores, target = curves(0.6, 0.02)
    rest = {h: values[1:] for h, values in scores.items()}
    expected = speed_up(rest, target[1:], Objective())
    assert speed_up(scores, [math.nan, *target[1:]], Objective()) == expected
    assert expected.seeds == 7
    assert speed_up(scores, [math.nan] * 8, Objective()).seeds == 0
