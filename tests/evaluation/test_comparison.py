# ruff: noqa: RUF001 - en dashes in intervals
"""Comparisons of recipes: order, verdict, intervals, table."""

import math

import pytest

from optsmith import Objective
from optsmith.evaluation import Comparison, Evaluation, Status, evaluate_recipe, named_or
from optsmith.optim import parse_recipe
from optsmith.task import Metric
from tasks_for_tests import PROTOCOL, line

ACCURACY = Objective("accuracy", "maximize", "last", "%")
NOISE = (0.97, 1.02, 1.0, 0.99, 1.03, 0.98)
OTHER = (1.01, 0.99, 1.0, 1.0, 0.98, 1.02)


def row(recipe, mean, noise=NOISE, seeds=None, **metrics):
    scores = tuple(mean * x for x in noise)
    score = sum(scores) / len(scores)
    status = Status.OK if math.isfinite(score) else Status.DIVERGED
    return Evaluation(
        recipe,
        status,
        score if status is Status.OK else None,
        0.1,
        seeds=tuple(seeds or range(len(scores))),
        scores=scores,
        metrics=metrics,
    )


def untrained(recipe, status=Status.DIVERGED):
    return Evaluation(recipe, status)


def test_the_best_row_is_first():
    rows = (row("m1", 1.1), row("torch:sgd", 3.0), untrained("g"), row("torch:adam", 2.0))
    found = Comparison(Objective(), rows)
    assert [e.recipe for e in found.rows] == ["m1", "torch:adam", "torch:sgd", "g"]
    assert found.best_baseline.recipe == "torch:adam"
    assert Comparison(ACCURACY, rows).rows[0].recipe == "torch:sgd"
    assert Comparison(Objective(), rows[:1]).best_baseline is None


def test_a_verdict_compares_with_the_best_baseline_by_seed():
    rows = (row("m1", 1.0), row("torch:sgd", 9.0), row("torch:adam", 2.0, OTHER))
    verdict = Comparison(Objective(), rows).verdict("m1")
    assert verdict.startswith(
        "m1 beats torch:adam in training loss by 50 % (95 %: 48–52 %, 6 seeds"
    )
    rows = (row("m1", 0.5), row("torch:adam", 0.4, OTHER))
    assert Comparison(Objective(), rows).verdict("m1").startswith("m1 is worse than torch:adam in ")
    higher = Comparison(ACCURACY, rows).verdict("m1")
    assert higher.startswith("m1 beats torch:adam in accuracy by 9.9 points (95 %: ")
    same = Comparison(Objective(), (row("m1", 1.0), row("torch:adam", 1.0, OTHER)))
    assert same.verdict("m1").startswith(
        "m1 cannot be told apart from torch:adam in training loss (±"
    )


def test_a_verdict_names_the_metric_that_contradicts_the_score():
    worse = {"test loss": tuple(0.8 * x for x in NOISE)}
    better = {"test loss": tuple(0.5 * x for x in OTHER)}
    metrics = {"test loss": Metric("test loss", direction="minimize")}
    rows = (row("m1", 1.0, **worse), row("torch:adam", 2.0, OTHER, **better))
    verdict = Comparison(Objective(), rows, metrics).verdict("m1")
    first = verdict.partition(". ")[0]
    assert "m1 beats torch:adam" in first
    assert first.endswith(", but its test loss is worse: 0.7987 against 0.5.")


def test_only_seeds_of_both_rows_are_compared():
    other = row("torch:adam", 2.0, (*OTHER, 50.0, 60.0), seeds=(5, 4, 3, 2, 1, 0, 8, 9))
    long = Comparison(Objective(), (row("m1", 1.0), other))
    same = row("torch:adam", 2.0, OTHER[::-1])
    assert long.verdict("m1") == Comparison(Objective(), (row("m1", 1.0), same)).verdict("m1")
    apart = Comparison(Objective(), (row("m1", 1.0, seeds=range(10, 16)), same))
    assert apart.verdict("m1") == (
        "m1 cannot be compared with torch:adam: 0 seeds are too few for a claim."
    )


@pytest.mark.parametrize("seeds", [1, 4])
def test_few_seeds_make_no_claim(seeds):
    rows = (row("m1", 1.0, [1.0] * seeds), row("torch:adam", 2.0, [1.0] * seeds))
    verdict = Comparison(Objective(), rows).verdict("m1")
    assert verdict.startswith("m1 has training loss 1 against 2 of torch:adam; ")
    assert verdict.endswith("too few for a claim: 5 are needed.")


def test_being_worse_than_the_best_of_many_needs_more_evidence():
    best = row("torch:adam", 1.0, OTHER)
    few = Comparison(Objective(), (row("m1", 1.06), best))
    assert "is worse than" in few.verdict("m1")
    many = [row(f"torch:{name}", 2.0) for name in ("sgd", "momentum", "nesterov", "rmsprop")]
    crowd = Comparison(Objective(), (row("m1", 1.06), best, *many))
    assert "cannot be told apart" in crowd.verdict("m1")


def test_recipes_without_a_score():
    best = row("torch:adam", 2.0)
    found = Comparison(
        Objective(),
        (
            untrained("m1"),
            untrained("g", Status.EARLY_STOPPED),
            untrained("cd*g", Status.LOST),
            best,
        ),
    )
    assert found.verdict("m1") == "m1 has no score: it diverged."
    assert found.verdict("g") == "g has no score: it was stopped early."
    assert found.verdict("cd*g") == "cd*g has no score: it was lost, because the machine failed."
    assert found.verdict("ld*g") == ""
    assert Comparison(Objective(), (row("m1", 1.0), untrained("torch:adam"))).verdict("m1") == ""


def test_a_rule_that_diverged_on_a_seed_is_not_better():
    broken = row("m1", 1.0, (*NOISE, math.nan))
    assert broken.status is Status.DIVERGED
    found = Comparison(Objective(), (broken, row("torch:adam", 2.0, (*OTHER, 1.0))))
    assert found.verdict("m1") == (
        "m1 cannot be told apart from torch:adam in training loss (7 seeds)."
        " m1 diverged on 1 of 7 seeds."
    )


def test_every_row_has_an_interval_against_one_opponent():
    rows = (
        row("m1", 1.0),
        row("torch:sgd", 4.0, OTHER),
        row("torch:adam", 2.0, OTHER),
        row("g", 3.0, (math.nan, *NOISE[1:])),
        untrained("ld*g"),
    )
    found = Comparison(Objective(), rows).against("torch:adam")
    assert set(found) == {"m1", "torch:sgd", "g"}
    assert found["torch:sgd"].change == pytest.approx(1.0)
    assert found["m1"].low < -0.5 < found["m1"].high
    assert found["g"].diverged == 1
    assert Comparison(Objective(), rows).against("torch:lion") == {}


def test_a_table_has_one_row_per_recipe():
    pytest.importorskip("pandas")
    stage = PROTOCOL.final_stage
    rows = tuple(evaluate_recipe(line(), parse_recipe(r), stage) for r in ("m1", "torch:adam"))
    table = Comparison(Objective(), rows).table().set_index("recipe")
    assert {"score", "spread", "lr", "test loss", "state_bytes"} <= set(table.columns)
    paired = Comparison(Objective(), rows).against("torch:adam")["m1"]
    assert table.change["m1"] == paired.change
    assert table.change_low["m1"] == paired.low
    assert table.change_high["m1"] == paired.high
    assert math.isnan(table.change["torch:adam"])


def test_a_long_text_has_a_name_in_sentences():
    assert named_or("the rule", "ld*sign(m1) - Adam") == "ld*sign(m1) - Adam"
    assert named_or("the rule", "g + " * 20) == "the rule"
