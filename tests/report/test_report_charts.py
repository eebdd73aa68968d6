"""Scales, ticks and marks."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optsmith.report._charts import (
    Scale,
    border_tick,
    line,
    round_step,
    scale_for,
    stair,
    tick_labels,
)

numbers = st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) > 1e-9)


@given(st.lists(numbers, min_size=1, max_size=20), st.sampled_from([2.0, 8.0, math.inf]))
def test_values_lie_inside_in_their_order(values, ratio):
    scale = scale_for(values, ratio)
    places = [scale(value) for value in sorted(values)]
    assert all(scale.holds(value) for value in values)
    assert all(0 <= place <= 100 for place in places)
    assert all(high <= low for low, high in pairwise(places))  # up is towards 0 %


@given(st.lists(numbers, min_size=1, max_size=20), st.sampled_from([2.0, math.inf]))
def test_ticks_are_few_and_inside_and_told_apart(values, ratio):
    scale = scale_for(values, ratio)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 9
    assert all(a < b for a, b in pairwise(ticks))
    slack = 1e-9 * (abs(scale.low) + abs(scale.high))
    assert all(scale.low - slack <= tick <= scale.high + slack for tick in ticks)
    assert len(tick_labels(ticks, scale.log)) == len(ticks)


@pytest.mark.parametrize(
    ("low", "high", "log", "labels"),
    [
        (0.5, 2.5, False, ["0.5", "1.0", "1.5", "2.0", "2.5"]),
        (0.0, 100.0, False, ["0", "20", "40", "60", "80", "100"]),
        (-1.0, 1.0, False, ["−1.0", "−0.5", "0.0", "0.5", "1.0"]),  # noqa: RUF001
        (0.15, 2.5, True, ["0.2", "0.3", "0.5", "0.7", "1", "2"]),
        (0.05, 9.0, True, ["0.1", "0.3", "1", "3"]),
        (1e-4, 1e4, True, ["0.0001", "0.01", "1", "100", "10,000"]),
        (0.5, 1.5, False, ["0.6", "0.8", "1.0", "1.2", "1.4"]),
    ],
)
def test_labels_are_round_numbers(low, high, log, labels):
    scale = Scale(low, high, log)
    assert tick_labels(scale.ticks(), log) == labels


def test_log_scales_are_chosen_by_ratio_and_only_for_positive_values():
    assert scale_for([1, 10], 8).log
    assert not scale_for([1, 7], 8).log
    assert not scale_for([-1, 10], 8).log
    assert not scale_for([0, 10], 8).log


def test_round_steps():
    assert [round_step(x) for x in (0.1, 0.13, 3, 5.1, 10)] == pytest.approx([0.1, 0.2, 5, 10, 10])


def test_a_stair_is_level_until_the_next_place():
    assert 'd="M0 50L10 50L10 20L100 20"' in stair([(0, 50), (10, 20)], 100, "best")
    assert 'd="M0 1L2 3"' in line([(0, 1), (2, 3)], "x")


def test_border_marks_stand_inside_the_plot():
    assert 'y="0"' in border_tick(3, True, "")
    assert 'y="100%"' in border_tick(3, False, "")
    assert "translate(-1 -9)" in border_tick(3, False, "")
