"""Comparison of studies: groups, best score so far, the table, and what is refused."""

from __future__ import annotations

import pytest

from invented_studies import PROTOCOL, invent, invented_claim
from optsmith import Objective, StudyError
from optsmith.study import compare_studies
from optsmith.study._compare import best_so_far


def test_the_best_score_so_far_counts_all_evaluations_and_their_cost(tmp_path):
    points = best_so_far(invent(tmp_path))
    assert [(p.evaluations, p.runs, p.score) for p in points] == [
        (1, 0.5, 0.5),
        (2, 1.0, 0.4),
        (4, 1.75, 0.3),  # one was stopped early, after half as many steps
        (5, 2.25, 0.3),
    ]


def test_larger_scores_are_better_where_the_objective_says_so(tmp_path):
    objective = Objective("accuracy", "maximize", "last", "%")
    points = best_so_far(invent(tmp_path, objective=objective))
    assert {p.score for p in points} == {0.5}


def test_studies_that_differ_in_the_seed_only_form_one_group(tmp_path):
    one = invent(tmp_path, seed=1)
    others = [
        invent(tmp_path, seed=0),
        invent(tmp_path, algorithm="mct"),
        invent(tmp_path, name="longer", seed=2, budget=9),
    ]
    groups = one.compare(*others).groups
    assert [(g.label, len(g.studies)) for g in groups] == [
        ("random, budget 5", 2),
        ("mct", 1),
        ("random, budget 9", 1),
    ]
    assert [study.settings["seed"] for study in groups[0].studies] == [0, 1]


def test_a_study_is_counted_once(tmp_path):
    study = invent(tmp_path)
    (group,) = study.compare(study).groups
    assert len(group.studies) == 1


def test_a_band_begins_where_all_studies_have_a_score(tmp_path):
    studies = [
        invent(tmp_path, (0.5, 0.4), seed=0),
        invent(tmp_path, (None, 0.6, 0.2), seed=1),
        invent(tmp_path, (0.7,), seed=2),
    ]
    (group,) = compare_studies(studies).groups
    band = [(p.cost, p.middle, p.low, p.high) for p in group.band("evaluations")]
    assert band == [(2, 0.6, 0.4, 0.7), (3, 0.4, 0.2, 0.7)]


def test_the_table_has_medians_per_group(tmp_path):
    studies = [
        invent(tmp_path, (0.5, 0.4, 0.35, 0.3), seed=0),
        invent(tmp_path, (0.5, 0.4, 0.35, 0.2), seed=1, claim=invented_claim()),
        invent(tmp_path, (None,), algorithm="mct", final=False),
    ]
    table = compare_studies(studies).table()
    first, second = (table.iloc[i].to_dict() for i in range(2))
    assert first["group"] == "random"
    assert first["studies"] == 2
    assert first["search score"] == pytest.approx(0.25)
    assert first["held-out score"] == pytest.approx(0.2)
    assert first["change"] == pytest.approx(-0.2, abs=0.005)
    assert first["runs"] == pytest.approx((18.0 + 30.0) / 2)  # of the claim, where there is one
    assert first["seconds"] == 90
    assert second["evaluations"] == 1
    assert second["search score"] != second["search score"]  # NaN: no rule was accepted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "line"}, "bowl-random-0 and line-random-0 cannot be compared: their tasks are"),
        ({"objective": Objective("accuracy")}, "their objectives differ"),
        ({"first_signal": 2.0}, "their models or data differ"),
        ({"protocol": PROTOCOL.replace(steps=50)}, "protocols differ, steps is 100 and 50"),
    ],
)
def test_scores_that_cannot_be_compared_are_not(changes, message, tmp_path):
    one = invent(tmp_path)
    other = invent(tmp_path, **{"name": "" if "task" in changes else "other", **changes})
    with pytest.raises(StudyError, match=message):
        one.compare(other)


def test_something_must_be_compared():
    with pytest.raises(StudyError, match="no study"):
        compare_studies([])
