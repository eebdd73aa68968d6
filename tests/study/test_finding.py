"""The winner of a search: how it is chosen, and its one learning rate."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
import torch
from rich.console import Console

import optsmith
from optsmith import Evaluation, Status, Study
from optsmith.cli._result import print_study, study_json
from optsmith.optim import Baseline
from optsmith.report import report_data
from optsmith.storage import Store
from optsmith.study._reading import final_key
from tasks_for_tests import PROTOCOL, bowl

# Without known rules, which are not proposed.
SMALL = {"budget": 6, "options": {"levels": 2}, "workers": 0, "proposals": 2, "warm_start": False}


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    # Short proxies have another best learning rate than the final evaluation.
    protocol = PROTOCOL.replace(
        lrs=(0.01, 0.03, 0.1, 0.3, 1.0, 3.0), proxy_steps=4, steps=4, final_steps=40, tune_steps=40
    )
    return optsmith.search(
        bowl(), storage=tmp_path_factory.mktemp("study"), protocol=protocol,
        baselines=[Baseline("sgd")], **SMALL,
    )  # fmt: skip


def test_a_rule_has_one_learning_rate_everywhere(study):
    best = study.best()
    row = next(e for e in study.final.rows if e.recipe == best.recipe)
    assert row.lr != best.search.lr  # else this test shows nothing
    assert best.lr == row.lr
    optimizer = best.optimizer([torch.ones(2, requires_grad=True)], total_steps=9)
    assert optimizer.param_groups[0]["lr"] == row.lr
    data = json.loads(json.dumps(study_json(study)))
    assert data["best"]["lr"] == data["best"]["held_out"]["lr"] == row.lr
    assert data["best"]["search_lr"] == best.search.lr
    for found in data["top"]:
        assert found["lr"] == next(e.lr for e in study.final.rows if e.recipe == found["rule"])
    assert report_data(study)["winner"]["lr"] == row.lr
    screen = io.StringIO()
    print_study(study, Console(file=screen, width=150))
    assert f"{row.lr:.4g}" in next(x for x in screen.getvalue().splitlines() if best.recipe in x)


def test_the_scores_of_search_and_final_evaluation_are_both_there_and_named(study):
    best = study.best()
    row = next(e for e in study.final.rows if e.recipe == best.recipe)
    assert (best.search_score, best.held_out_score) == (best.search.score, row.score)
    data = study_json(study)["best"]
    assert (data["search_score"], data["held_out_score"]) == (best.search.score, row.score)
    winner = report_data(study)["winner"]
    assert winner["search"]["score"] == best.search.score
    assert winner["held_out"] == {"score": row.score, "spread": row.spread, "seeds": 2}


def test_before_the_end_the_learning_rate_is_that_of_the_search(study):
    found = replace(study.best(), held_out=None)
    assert (found.lr, found.held_out_score) == (found.search.lr, None)
    lost = Evaluation(found.recipe, Status.TIMED_OUT)
    assert replace(found, held_out=lost).lr == found.search.lr


def with_selection(tmp_path, *scores) -> Study:
    """Return a study whose proposals have these scores on selection seeds."""
    found = optsmith.search(bowl(), storage=tmp_path, protocol=PROTOCOL, baselines=[], **SMALL)
    with Store.open(tmp_path, found.name) as store:
        for finding, score in zip(found.best(2), scores, strict=True):
            changed = replace(finding.held_out, selection=score)
            store.set_attr(final_key(finding.recipe), changed.to_json())
        return Study(store)


@pytest.mark.parametrize(
    ("scores", "place"), [((5.0, 4.0), 1), ((4.0, 5.0), 0), ((None, None), 0), ((None, 5.0), 1)]
)
def test_the_score_on_selection_seeds_chooses_the_winner(tmp_path, scores, place):
    study = with_selection(tmp_path, *scores)
    assert study.best().recipe == study.best(2)[place].recipe
