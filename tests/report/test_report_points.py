"""Changes of fractions, such as accuracies, are in points wherever they are shown."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from invented_studies import OPPONENT, RULES, invent, invented_claim
from optsmith import Objective
from optsmith.cli._table import comparison_table
from optsmith.evaluation import Ablation, Check, Paired, printed_in
from optsmith.report import card, studies_html
from optsmith.report._data import report_data
from optsmith.report._evidence import change_text, interval_text
from optsmith.report._page import render

ACCURACY = Objective("test accuracy", "maximize", "last", "%")
FOUND = Paired(0.005, 0.002, 0.008, 0.001, 8)
"""A relative change of half a percent; of accuracies of 80 %, 0.4 points."""


@pytest.fixture
def study(tmp_path):
    claim = invented_claim(
        paired=FOUND,
        metrics={"hits": FOUND},
        metric_means={"hits": (0.804, 0.8)},
        rule_score=0.804,
        opponent_score=0.8,
        checks=(Check(setting="half the learning rate", against=RULES[3], paired=FOUND),),
        ablation=(Ablation(without="m1", paired=FOUND),),
        equally_tuned=FOUND,
        equally_tuned_opponent=OPPONENT,
    )
    return invent(tmp_path, objective=ACCURACY, claim=claim)


def words(html: str) -> str:
    text = re.sub(r"<style>.*?</style>", "", html, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


def test_what_a_change_is_printed_in():
    assert printed_in("%", 0.8) == (80, " points")
    assert printed_in("", 0.8) == (100, " %")
    assert printed_in("%", None) == (100, " %")
    found = {"change": 0.005, "low": 0.002, "high": 0.008, "reference": 0.8}
    assert change_text(found, "%") == "+0.40 points"
    assert interval_text(found, "%") == "+0.16 to +0.64 points"
    assert change_text(found) == "+0.50 %"


def test_the_verdict(study):
    assert "in test accuracy by 0.40 points (95 %: 0.16–0.64 points" in study.verdict  # noqa: RUF001
    tuned = study.verdict.partition("equally tuned")[2]
    assert "by 0.40 points" in tuned


def test_the_card(study):
    text = card(study)
    assert "+0.40 points" in text
    assert "+0.16 to +0.64 points" in text
    assert "change of hits: +0.50 %" in text  # it has no unit
    assert text.count("+0.50 %") == 1


def test_the_page(study):
    text = words(render(report_data(study)))
    assert "+0.40 points" in text
    assert "better →, points" in text
    assert "+0.50 %" not in text.partition("hits")[0]


def test_a_notebook(study):
    text = words(study._repr_html_())
    assert study.verdict in text
    assert re.search(r"\+0\.12 points", text)  # of 25 %, the mean of the row


def test_the_terminal(study):
    out = io.StringIO()
    table = comparison_table(study.final, claim=study.claim, width=200)
    Console(file=out, width=200).print(table)
    assert "points (+" in out.getvalue()


def test_python(study):
    pytest.importorskip("pandas")
    # By seed: 0.2 against 0.25, on average.
    table = study.final.table().set_index("recipe")
    assert table.change[RULES[3]] == pytest.approx(-0.05, abs=0.001)
    (row,) = study.compare().rows()
    assert row["change"] == pytest.approx(0.004)
    assert "+0.40 points" in words(studies_html(study.compare()))
