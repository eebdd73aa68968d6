"""Studies, findings and comparisons as HTML for notebooks, and as plots."""

from __future__ import annotations

import sys
from html.parser import HTMLParser

import pytest

from invented_studies import OPPONENT, RULES, evaluation, invent, invented_claim
from optsmith import Objective, OptsmithError, StudyError
from optsmith.evaluation import Comparison
from optsmith.report import report_data, studies_html
from optsmith.report._figure import Series, line_chart
from optsmith.report._page import render
from optsmith.report._studies import table_heads
from optsmith.study import compare_studies


class Text(HTMLParser):
    """The text of a piece of HTML; checks that its elements are closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.pieces: list[str] = []
        self.tags: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag != "wbr":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.pieces.append(data)


def shown(html: str) -> str:
    found = Text(html)
    assert "script" not in found.tags
    return " ".join("".join(found.pieces).split())


def test_a_study_shows_verdict_formula_table_and_curves(tmp_path):
    study = invent(tmp_path, claim=invented_claim())
    html = study._repr_html_()
    text = shown(html)
    assert text.startswith("bowl · random search, seed 0 · 5 evaluations · finished")
    assert study.verdict in text
    assert "<math" in html
    assert "learning rate 0.01 · search validation loss 0.3 · held-out validation loss 0.2" in text
    assert "−20 %" in text  # noqa: RUF001
    assert "Recommended" not in text
    assert html.count('class="curve') == 4  # two lines and their keys


def test_scores_of_the_search_and_of_the_report_have_their_own_names(tmp_path):
    objective = Objective("validation loss", report_name="test loss")
    study = invent(tmp_path, objective=objective, claim=invented_claim(recommended=OPPONENT))
    for text in (shown(study._repr_html_()), render(report_data(study))):
        assert "search validation loss" in text
        assert "held-out test loss" in text
        assert "held-out validation loss" not in text
    assert table_heads(study.compare())[2:4] == ["search validation loss", "held-out test loss"]


def test_a_recommended_opponent_is_named_before_the_best_rule(tmp_path):
    study = invent(tmp_path, claim=invented_claim(recommended=OPPONENT))
    text = shown(study._repr_html_())
    assert f"Recommended: {OPPONENT}, learning rate 0.01" in text
    assert text.index("Recommended:") < text.index("Best rule:")


def test_an_unfinished_study_shows_the_best_score_so_far(tmp_path):
    html = invent(tmp_path, final=False)._repr_html_()
    text = shown(html)
    assert "unfinished; the same call resumes it" in text
    assert "best validation loss (lower is better)" in text
    assert "<table" not in html


def test_a_study_without_a_rule(tmp_path):
    text = shown(invent(tmp_path, (None,), final=False)._repr_html_())
    assert "No rule was accepted." in text


def test_a_finding_shows_its_formula(tmp_path):
    html = invent(tmp_path).best()._repr_html_()
    assert "<math" in html
    assert "held-out score 0.2" in shown(html)


def test_a_comparison_shows_every_row(tmp_path):
    rows = [evaluation(rule, (0.2 + 0.1 * i, 0.3)) for i, rule in enumerate(RULES)]
    worse = evaluation("torch:sgd", (0.9, 0.8), metrics={"accuracy": (0.5, 0.7)})
    html = Comparison(Objective(), (*rows, worse))._repr_html_()
    assert html.count("<tr") == 7
    assert "accuracy" in shown(html)
    assert "more rows" not in html


def test_a_long_table_keeps_the_winner_and_its_opponent(tmp_path):
    study = invent(tmp_path)
    rows = [evaluation(f"torch:sgd+{i}", (0.01, 0.02)) for i in range(20)]
    study._final = {e.recipe: e for e in [*rows, *study.final.rows]}
    text = shown(study._repr_html_())
    assert study.best().recipe in text
    assert "14 more rows in the report" in text


def test_names_are_escaped(tmp_path):
    study = invent(tmp_path, task="<script>alert(1)</script>", name="odd")
    assert "<script" not in study._repr_html_()


def test_values_that_cannot_be_drawn_are_left_out(tmp_path):
    broken = evaluation("g", (0.1,), curve=((1, float("nan")), (2, float("inf")), (3, 0.5)))
    html = Comparison(Objective(), (broken,))._repr_html_()
    assert "<svg" not in html  # one point is not a curve


def test_studies_are_compared_in_a_table_and_two_charts(tmp_path):
    studies = [invent(tmp_path, seed=seed) for seed in (0, 1)]
    studies.append(invent(tmp_path, algorithm="mct"))
    html = studies[0].compare(*studies[1:])._repr_html_()
    text = shown(html)
    assert "random (2 seeds: median and range)" in text
    assert "training steps, as full runs" in text
    assert html.count("optsmith-figure") >= 2


def test_studies_without_a_score_have_no_chart(tmp_path):
    comparison = compare_studies([invent(tmp_path, (None,), final=False)])
    assert "<svg" not in studies_html(comparison)


def test_a_chart_of_one_point_has_a_scale():
    assert "NaN" not in str(line_chart([Series("one", [(0.0, 1.0)])], "x", "y"))


# --- plots ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("final", [True, False])
def test_a_plot_without_matplotlib_says_what_to_install(final, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    study = invent(tmp_path, final=final)
    with pytest.raises(OptsmithError, match=r"pip install 'optsmith\[plot\]'"):
        study.plot()
    with pytest.raises(OptsmithError, match=r"pip install 'optsmith\[plot\]'"):
        study.compare().plot()


def test_there_must_be_something_to_plot(tmp_path):
    study = invent(tmp_path, (None,), final=False)
    with pytest.raises(StudyError, match="no accepted rule"):
        study.plot()
    with pytest.raises(StudyError, match="no accepted rule"):
        study.compare().plot()


@pytest.fixture
def agg():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    yield
    matplotlib.pyplot.close("all")


@pytest.mark.usefixtures("agg")
def test_a_finished_study_is_plotted_with_its_opponent(tmp_path):
    curves, differences = invent(tmp_path, claim=invented_claim()).plot().axes
    assert [line.get_label() for line in curves.get_lines()] == [RULES[3], OPPONENT]
    changes = sorted(100 * (a / b - 1) for a, b in ((0.18, 0.23), (0.2, 0.25), (0.22, 0.27)))
    drawn = differences.get_lines()[1].get_ydata()
    assert drawn[[0, 1, 3]] == pytest.approx(changes)


@pytest.mark.usefixtures("agg")
def test_studies_are_plotted_against_both_costs(tmp_path):
    studies = [invent(tmp_path, seed=seed) for seed in (0, 1)]
    by_runs, by_evaluations = studies[0].compare(studies[1]).plot().axes
    assert list(by_runs.get_lines()[0].get_xdata()) == [0.5, 1.0, 1.75, 2.25]
    assert list(by_evaluations.get_lines()[0].get_xdata()) == [1, 2, 4, 5]
    assert len(by_runs.collections) == 1  # the band
