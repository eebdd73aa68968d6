"""Metrics: units, directions, and how they are printed."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console

import optsmith
from optsmith import Metric, Objective, TaskError
from optsmith.cli._table import comparison_table
from optsmith.evaluation import Comparison, Evaluation, Status
from optsmith.report._data import report_data
from optsmith.report._values import Goal
from optsmith.task import accuracy, find_task
from tasks_for_tests import PROTOCOL, bowl, close, line, line_data

BY_SHARE = Metric("close", close, "%")


def test_accuracy_is_a_share():
    output, target = torch.eye(4), torch.tensor([0, 1, 2, 0])
    assert float(accuracy(output, target)) == 0.75
    assert accuracy.text(0.75) == "75.00 %"
    assert accuracy.text(0.75, 0.0123) == "75.00 ± 1.23 %"


def test_units_are_declared_not_guessed():
    """The unit does not depend on the name."""
    assert Metric("accuracy").text(0.75) == "0.7500"
    assert Metric("time", unit="s", direction="minimize").text(2.5, 0.5) == "2.5000 ± 0.5000 s"
    assert Objective("success", "maximize", "last", "%").brief(0.7416) == "74.16 %"
    assert Objective().brief(0.74161) == "0.7416"


def test_a_metric_names_the_objective_of_validation_data():
    task = line(metric=BY_SHARE, validation=line_data(32, 2))
    assert task.objective == Objective("validation close", "maximize", "tail", "%", "test close")
    down = Metric("distance", close, direction="minimize")
    assert line(metric=down, validation=line_data(32, 2)).objective.direction == "minimize"
    plain = line(metric=close, validation=line_data(32, 2), direction="minimize")
    assert plain.objective == Objective(
        "validation close", "minimize", "tail", report_name="test close"
    )


def test_tasks_declare_what_they_measure():
    task = line(metric=BY_SHARE)
    assert {n: (m.unit, m.direction, m.secondary) for n, m in task.metrics.items()} == {
        "test loss": ("", "minimize", True),
        "test close": ("%", "maximize", False),
    }
    assert not line().metrics["test loss"].secondary
    assert bowl().metrics == {}
    distance = Metric("distance", unit="m", direction="minimize")
    assert bowl(metrics=[distance]).metrics == {"distance": distance}
    attack = find_task("attack")
    assert attack.metrics["success at any step"].unit == attack.objective.unit == "%"


def test_a_metric_that_its_task_measures_has_no_function():
    with pytest.raises(TaskError, match="has no function"):
        Metric("close", unit="%")(1, 2)


BAD = {
    "needs a name": lambda: Metric(""),
    "needs a function": lambda: Metric("a", 3),
    '"minimize" or "maximize"': lambda: Metric("a", direction="up"),
}


@pytest.mark.parametrize("message", BAD)
def test_what_makes_no_sense_is_said(message):
    with pytest.raises(TaskError, match=message):
        BAD[message]()


def printed(comparison) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(comparison_table(comparison))
    return out.getvalue()


def comparison(objective, metrics, **measured) -> Comparison:
    rows = tuple(
        Evaluation(
            name, Status.OK, score, 0.1, seeds=(1, 2), scores=(score, score), metrics=measured
        )
        for name, score in (("m1", 0.742), ("torch:sgd", 0.5))
    )
    return Comparison(objective, rows, metrics)


def test_a_terminal_prints_scores_and_metrics_in_their_units():
    success = Objective("success rate", "maximize", "last", "%")
    metrics = find_task("attack").metrics
    shown = comparison(
        success, metrics, **{"success at any step": (0.8, 0.9), "loss at the end": (1.0, 2.0)}
    )
    text = printed(shown)
    assert "74.20 ± 0.00 %" in text
    assert "85.00 ± 7.07 %" in text
    assert "loss at the end" not in text  # secondary
    assert "success rate 74.2 % against 50.0 %" in shown.verdict("m1")
    other = printed(comparison(Objective(), {}, loss=(1.0, 2.0)))
    assert "1.5000 ± 0.7071" in other  # not declared: shown without a unit


def test_a_study_keeps_what_is_declared_and_its_page_prints_it(tmp_path):
    task = line(metric=BY_SHARE, validation=line_data(32, 2), protocol=PROTOCOL)
    study = optsmith.search(
        task, budget=2, workers=0, storage=tmp_path / "a.journal", baselines=[], preset="quick"
    )
    assert set(study.about["metrics"]) == {"test loss"}
    assert study.final.objective.name == "test close"
    assert study.final.metric("something else").unit == ""
    goal = Goal.of(report_data(study)["task"])
    assert goal.quantity.text(0.742) == "74.20 %"
    assert goal.metric("test loss").text(0.5) == "0.5000"


def test_evaluations_are_compared_with_units_too():
    found = optsmith.evaluate(line(metric=BY_SHARE), ["g"], workers=0, preset="quick")
    assert found.metric("test close").unit == "%"
