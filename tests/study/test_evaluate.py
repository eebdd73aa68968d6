"""`evaluate`: recipes compared, and kept."""

from __future__ import annotations

import pytest

import optsmith
from optsmith import RuleError, Study, StudyError, Task, TaskError
from tasks_for_tests import PROTOCOL, bowl, line, quadratic


def steeper(run):
    for loss in quadratic(run):
        yield 2 * loss


RECIPES = ["g", "m1", "torch:adam"]


def evaluate(tmp_path, recipes=RECIPES, task=None, **options):
    """Return the comparison, and which recipes were trained for it."""
    trained = []
    settings = {"protocol": PROTOCOL, "observer": lambda e: trained.append(e.recipe), **options}
    comparison = optsmith.evaluate(
        task or bowl(), recipes, workers=0, storage=tmp_path, study="table", **settings
    )
    return comparison, trained


def facts(comparison):
    return [(e.recipe, e.score, e.lr, e.scores, e.metrics, e.grid) for e in comparison.rows]


def test_an_evaluation_goes_on_where_it_was_stopped(tmp_path):
    class Stop(Exception):  # noqa: N818 - not an error
        pass

    def stop(evaluation):
        raise Stop

    with pytest.raises(Stop):
        evaluate(tmp_path, observer=stop)
    resumed, trained = evaluate(tmp_path)
    assert trained == RECIPES[1:]
    assert facts(resumed) == facts(optsmith.evaluate(bowl(), RECIPES, protocol=PROTOCOL, workers=0))
    more, trained = evaluate(tmp_path, [*RECIPES, "sign(g)"])
    assert trained == ["sign(g)"]
    assert len(more.rows) == 4


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"protocol": PROTOCOL.replace(final_steps=3)}, "was made with steps"),
        ({"task": line()}, "was made with task"),
        (
            {"task": Task.from_function(steeper, protocol=PROTOCOL, name="bowl")},
            "another model or data",
        ),
    ],
)
def test_an_evaluation_of_something_else_is_refused(tmp_path, changes, why):
    evaluate(tmp_path, ["g"])
    with pytest.raises(StudyError, match=why):
        evaluate(tmp_path, ["m1"], **changes)
    assert evaluate(tmp_path, ["g"])[1] == []


def test_a_search_and_a_table_are_told_apart(tmp_path):
    evaluate(tmp_path, ["g"])
    with pytest.raises(StudyError, match="no search in it"):
        Study.load("table", tmp_path)
    optsmith.search(
        bowl(),
        storage=tmp_path,
        study="found",
        budget=2,
        options={"levels": 1},
        workers=0,
        baselines=[],
    )
    with pytest.raises(StudyError, match="that of a search"):
        optsmith.evaluate(bowl(), ["g"], workers=0, storage=tmp_path, study="found")


def test_a_storage_without_a_name_is_refused(tmp_path):
    with pytest.raises(TaskError, match="name of a study"):
        optsmith.evaluate(bowl(), ["g"], workers=0, storage=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_rule_without_a_program_is_one_sentence():
    with pytest.raises(RuleError, match="orth needs a tensor, such as g or w"):
        optsmith.evaluate(line(), ["g", "hidden(g, orth(ld))"], workers=0)
