"""Work of the phases of a study, and the jobs in which it is done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsmith.searchers import Mixture
from optsmith.study._cost import equal_tuning, survivors, work_of
from optsmith.study._work import Runs, Work, job_sizes, runs_of, wall_time
from optsmith.task import Contest, presets_for


def test_numbers_fall_as_the_race_gets_longer():
    assert survivors(40, Contest(race=(0.1, 0.3), finalists=5)) == (40, 14, 10)
    assert survivors(6, Contest(race=(0.1, 0.3), finalists=5)) == (6, 6, 6)
    assert survivors(40, Contest(race=(0.1,))) == (40, 40)


def test_the_work_of_a_study_in_full_runs():
    contest = Contest(
        race=(0.1,), finalists=2, looks=(8, 16), horizons=(0.5, 0.9), checks=True, selection_seeds=1
    )
    preset = replace(presets_for(1000)["quick"], contest=contest, budget=10, proposals=3)
    preset = replace(
        preset, protocol=preset.protocol.replace(proxy_steps=300, steps=300, score_seeds=2)
    )
    runs = {
        phase: sum(work.trained for work in every) / 1000
        for phase, every in work_of(preset, 20).items()
    }
    assert runs == {
        "opponents": pytest.approx(20 * 4.75 * 0.1 + 4 * (10.75 + 2) * 0.3),
        "search": pytest.approx(10 * 1.4 * (10.75 + 2) * 0.3),
        "refinement": pytest.approx(10 * 8 + 6 * 8 * 2 + 3 * 3 * 2),
        "tuning": pytest.approx(5 * 8),
        "report": pytest.approx(5 * 8 + 2 * 8),
        "speed-up": pytest.approx(2 * 0.9 * 8),
        "checks": pytest.approx(6 * 8),
        "equal tuning": 0,
    }


def test_the_work_of_a_search_with_rungs():
    preset = replace(presets_for(1000)["paper"], budget=30, options={"rungs": "0.1,0.3,1"})
    works = work_of(preset, 0)["search"]
    assert [w.evaluations for w in works] == pytest.approx([42, 10, 3])
    assert [w.runs[0].steps for w in works] == [10, 30, 100]


def test_without_looks_all_recipes_are_tuned_and_reported_once():
    work = work_of(presets_for(1000)["paper"], 18)
    assert work["opponents"] == work["speed-up"] == work["checks"] == ()
    (tuned,), (scored,) = work["tuning"], work["report"]
    assert (tuned.evaluations, tuned.runs) == (23, (Runs(10, 100),))
    assert (scored.evaluations, scored.runs) == (23, (Runs(4, 1000),))


def test_an_opponent_is_tuned_with_as_many_steps_as_the_search_took():
    preset = Mixture.adapted(presets_for(1000)["quick"])
    *generations, around, report = equal_tuning(preset, trained=5 * 16 * 2 * 1000)
    assert [work.trained for work in generations] == [16 * 2 * 1000] * 5
    assert (around.evaluations, report.evaluations) == (1, 1)


def test_the_runs_of_an_evaluation_follow_from_its_stage():
    protocol = presets_for(1000)["quick"].protocol
    search, race = protocol.search_stage, protocol.race_stage()
    assert runs_of(search) == (Runs(10.75, 100, 3), Runs(4, 100))
    assert runs_of(search, 0.5, lr=0.1) == (Runs(4, 50),)
    assert runs_of(race, 0.1) == (Runs(4.75, 100, 2),)
    assert runs_of(race, 0.3, around=0.1) == (Runs(7, 300, 1.5),)
    halved = protocol.replace(lr_search="halving").search_stage
    assert runs_of(halved)[0] == Runs(5, 100)


def test_few_evaluations_are_divided_between_workers():
    assert job_sizes(9, 4) == [4, 4, 1]
    assert job_sizes(4, 4) == [2, 2]
    assert job_sizes(2, 4) == [1, 1]
    assert job_sizes(3, 1) == [1, 1, 1]
    assert job_sizes(0, 4) == []
    assert Work(6, (), alike=3).jobs(4) == [2, 1, 2, 1]


def test_workers_take_the_next_job_when_they_are_free():
    assert wall_time([4, 1, 2], 2) == 4
    assert wall_time([4, 1, 2], 1) == 7
    assert wall_time([], 2) == 0
