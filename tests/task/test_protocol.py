"""Stages of a protocol, and the stage of one candidate."""

from __future__ import annotations

import pytest

from optsmith import TaskError
from optsmith.task import Preset, Protocol

PROTOCOL = Protocol(
    lrs=(0.1, 1.0), proxy_steps=10, steps=30, final_steps=200, tune_steps=50, score_seeds=4,
    final_seeds=3, threshold=5.0, early_stop=False, extend_grid=True, lr_search="halving",
)  # fmt: skip


def test_a_stage_has_what_differs_and_the_rest_of_its_protocol():
    search, final = PROTOCOL.search_stage, PROTOCOL.final_stage
    for stage in (search, final):
        assert stage.protocol is PROTOCOL
        assert (stage.lrs, stage.lr_search) == ((0.1, 1.0), "halving")
        assert (stage.early_stop, stage.extend_grid, stage.lr) == (False, True, None)
    assert (search.tune_steps, search.steps, search.threshold, search.final) == (10, 30, 5.0, False)
    assert (final.tune_steps, final.steps, final.threshold, final.final) == (50, 200, None, True)
    assert (len(search.seeds), len(final.seeds)) == (4, 3)


def test_no_seed_has_two_purposes():
    stages = [PROTOCOL.search_stage, PROTOCOL.final_stage]
    blocks = [stage.at(block=b) for stage in stages for b in range(5)]
    seeds = [seed for stage in stages for seed in stage.lr_seeds]
    seeds += [seed for block in blocks for seed in block.seeds]
    assert len(set(seeds)) == len(seeds) == 4 + 5 * (4 + 3)


def test_the_stage_of_a_candidate_is_the_search_s_unless_it_asks_for_something():
    stage = PROTOCOL.search_stage
    assert stage.at() == stage
    assert stage.at(1.0, 0, None) == stage


@pytest.mark.parametrize(
    ("fidelity", "lengths"), [(0.5, (5, 15)), (0.1, (1, 3)), (0.01, (1, 1)), (0.99, (10, 30))]
)
def test_a_fidelity_is_a_share_of_the_length_of_at_least_one_step(fidelity, lengths):
    stage = PROTOCOL.search_stage.at(fidelity)
    assert (stage.tune_steps, stage.steps) == lengths
    assert stage.threshold is None  # the threshold applies to full runs
    assert stage.seeds == PROTOCOL.search_stage.seeds


def test_blocks_are_disjoint_runs_of_seeds_until_there_are_no_more():
    stage = PROTOCOL.search_stage
    assert stage.at(block=2).seeds == (9, 10, 11, 12)
    assert stage.at(block=2).threshold == 5.0
    last = 999_998 // 4 - 1
    assert stage.at(block=last).seeds[-1] < stage.lr_seeds[1]
    with pytest.raises(TaskError, match=f"there is no block {last + 1} of 4 seeds each"):
        stage.at(block=last + 1)


def test_a_fixed_learning_rate_goes_with_the_rest():
    stage = PROTOCOL.search_stage.at(0.5, 1, 0.02)
    assert (stage.lr, stage.steps, stage.seeds) == (0.02, 15, (5, 6, 7, 8))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"budget": 0}, "budget must be at least 1, not 0"),
        ({"proposals": 0}, "proposals must be at least 1, not 0"),
        ({"dedupe": "all"}, 'dedupe must be one of none, equal, scale, not "all"'),
    ],
)
def test_a_preset_that_makes_no_sense_is_refused(changes, says):
    with pytest.raises(TaskError, match=says):
        Preset(protocol=PROTOCOL, **changes)
