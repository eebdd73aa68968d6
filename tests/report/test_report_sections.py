"""What the sections say: fronts, tables, trees and counts."""

import copy
import itertools
import json
import re

import pytest
from fake_study import WINNER, study

from optsmith.report._ablation import ablation, most_important, relative
from optsmith.report._curves import curves_section, drawn_rows
from optsmith.report._differences import differences, shown_rows
from optsmith.report._front import front
from optsmith.report._history import accepted, history_section, improvements
from optsmith.report._rows import grouped, name_of, optimizer_of
from optsmith.report._screened import early_stop_rate, losses, screened_section, trained
from optsmith.report._table import final_section
from optsmith.report._tree import ordered, tree_section
from optsmith.report._values import (
    Goal,
    Quantity,
    decimals_for,
    duration,
    percent,
    shortest,
    significant,
)

LOSS = Goal(Quantity("training loss"), True, {"test accuracy": "%"})
ACCURACY = Goal(Quantity("test accuracy", "%"), False)


@pytest.fixture(scope="module")
def full():
    return study()


@pytest.fixture
def data(full):
    return copy.deepcopy(full)


def words(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", html))


@pytest.mark.parametrize("objective", [LOSS, ACCURACY])
def test_the_front_is_what_nothing_as_short_beats(full, objective):
    entries = accepted(full["history"])
    found = front(entries, objective)
    cost = objective.cost
    expected = [
        e
        for e in entries
        if not any(
            o["length"] <= e["length"]
            and (cost(o["score"]), o["length"]) < (cost(e["score"]), e["length"])
            for o in entries
        )
    ]
    assert found == sorted(expected, key=lambda e: e["length"])


def test_improvements_are_strict():
    scores = [3.0, 3.0, 2.0, 2.5, 1.0]
    entries = [{"score": s, "n": n} for n, s in enumerate(scores)]
    assert [e["n"] for e in improvements(entries, LOSS)] == [0, 2, 4]
    assert [e["n"] for e in improvements(entries, ACCURACY)] == [0]


def test_what_has_no_score_is_marked_at_the_border(full):
    html = history_section(full["history"], LOSS)
    without = [e for e in full["history"] if e["status"] not in ("ok", "rejected")]
    outside = [e for e in full["history"] if e["status"] == "rejected"]  # far above the others
    assert html.count('class="rug"') == len(without) + len(outside)
    assert html.count("<circle") == len(accepted(full["history"]))
    assert all(f"Level {n}" in html for n in (1, 2, 3, 4))


def test_the_table_groups_baselines_and_marks_rules(full):
    html = final_section(full, LOSS)
    rows = re.findall(r"<tr[^>]*>.*?</tr>", html, re.S)
    assert sum('class="ours"' in row.split(">")[0] for row in rows) == 5
    assert sum('class="lesser"' in row for row in rows) == 12
    optimizers = [optimizer_of(r) for r in full["final"]["rows"] if r["kind"] != "rule"]
    order = re.findall(r'class="name"><span>(torch:\w+)<', html)
    assert [k for k, _ in itertools.groupby(order)] == list(dict.fromkeys(optimizers))
    assert html.count("best rule, recommended") == html.count(">best opponent<") == 1
    assert "93." in words(html)  # accuracies as per cent
    assert "Trained again for 1,000 steps on 16 seeds" in words(html)


def test_the_edge_of_the_grid_is_explained_only_when_it_is_there(data):
    rows = data["final"]["rows"]
    assert any(row["at_edge"] for row in rows)
    assert final_section(data, LOSS).count('class="edge"') > 1
    for row in rows:
        row["at_edge"] = False
    html = final_section(data, LOSS)
    assert "edge" not in html


def test_a_baseline_that_failed_says_why(data):
    data["final"]["rows"][-1] |= {"status": "failed", "error": "ValueError: no"}
    text = words(final_section(data, LOSS))
    assert "failed" in text
    assert "torch:adamw, constant: ValueError: no" in text


def test_rules_alone_are_not_called_a_comparison(data):
    data["final"]["rows"] = [r for r in data["final"]["rows"] if r["kind"] == "rule"]
    html = final_section(data, LOSS)
    assert "baselines" not in words(html).lower()


def test_differences_are_of_rules_and_of_opponents_at_their_best(full):
    final = full["final"]
    labels = [row["label"] for row in shown_rows(final["rows"])]
    assert final["opponent"] not in labels
    assert WINNER in labels
    assert len(labels) == 5 + 6
    html = differences(final, LOSS)
    assert html.count("<li>") == len(labels)
    assert "← better" in html
    assert "better →" in differences(final, ACCURACY)


def test_a_difference_that_is_not_decided_is_hollow_and_a_large_one_is_an_arrow(data):
    rows = [row for row in data["final"]["rows"] if row["change"]][:4]
    changes = [(-0.02, True), (0.01, None), (0.03, False), (5.0, False)]
    for row, (change, better) in zip(rows, changes, strict=True):
        row["change"] |= {"change": change, "low": change - 0.01, "high": change + 0.01}
        row["change"]["better"] = better
        row["kind"] = "rule"
    html = str(differences({"rows": rows, "opponent": "torch:sgd"}, LOSS))
    assert html.count("whisker ours open") == 1
    assert html.count("▸") == 1
    assert html.count("<circle") == 3


def test_the_gain_of_a_rule_is_drawn_however_close_the_opponents_are(data):
    rows = [row for row in data["final"]["rows"] if row["change"]][:3]
    for row, change in zip(rows, (-0.3, 0.01, 0.02), strict=True):
        row["change"] |= {"change": change, "low": change - 0.01, "high": change + 0.01}
    html = str(differences({"rows": rows, "opponent": "torch:sgd"}, LOSS))
    assert "◂" not in html
    assert html.count("<circle") == 3


def test_no_opponent_no_differences(data):
    for row in data["final"]["rows"]:
        row["change"] = None
    assert differences(data["final"], LOSS) is None
    assert "95 % interval" not in final_section(data, LOSS)


def test_opponents_that_left_the_race_are_folded(data):
    html = final_section(data, LOSS)
    assert "<summary>3 opponents left the race earlier</summary>" in html
    text = words(html)
    assert "torch:radam+cosine5.0 %0.91000.01" in text
    assert "torch:adafactor5.0 %diverged" in text
    data["raced"] = []
    assert "<details" not in final_section(data, LOSS)


def test_names_of_rows():
    row = {"label": "torch:adam+cosine", "schedule": "cosine", "kind": "baseline"}
    assert (optimizer_of(row), name_of(row)) == ("torch:adam", "torch:adam, cosine")
    rule = {"label": "g + m1", "schedule": "", "kind": "rule"}
    assert name_of(rule) == "g + m1"
    assert grouped([row, rule, row]) == ([1], [[0, 2]])


def test_curves_are_those_of_the_winner_and_each_baseline_at_its_best(full):
    rows = full["final"]["rows"]
    assert drawn_rows(rows)[0]["label"] == WINNER
    second = next(r["label"] for r in rows if r["kind"] == "rule" and r["label"] != WINNER)
    drawn = drawn_rows(rows, second)
    assert drawn[0]["label"] == second
    assert len(drawn) == 7
    best = {}
    for row in rows:
        if row["kind"] != "rule" and row["status"] == "ok":
            best.setdefault(optimizer_of(row), row["label"])
    assert [row["label"] for row in drawn[1:]] == list(best.values())


def test_curves_that_fall_far_are_on_a_log_scale(data):
    rows = data["final"]["rows"]
    assert "log scale" in curves_section(data["final"])
    for row in rows:
        row["curve"] = [[step, 1 - value / 3] for step, value in row["curve"]]
    rising = curves_section(data["final"])
    assert "log scale" not in rising
    series = json.loads(re.search(r"json\">(.*?)</script>", rising, re.S)[1])
    assert len(series) == 7
    assert all(0 <= place <= 100 for s in series for place, _, _ in s["points"])


def test_no_curves_no_section(data):
    for row in data["final"]["rows"]:
        row["curve"] = []
    assert curves_section(data["final"]) is None


@pytest.mark.parametrize("objective", [LOSS, ACCURACY])
def test_children_are_listed_best_first(full, objective):
    for level in full["tree"]:
        scores = [child["score"] for child in ordered(level, objective)]
        known = [score for score in scores if score is not None]
        assert scores == known + [None] * (len(scores) - len(known))
        assert known == sorted(known, reverse=not objective.minimize)


def test_the_tree_shows_every_child_and_the_path(full):
    html = tree_section(full["tree"], LOSS)
    buttons = re.findall(r'<button[^>]*class="([^"]*)"[^>]*>', html)
    children = [child for level in full["tree"] for child in level["children"]]
    assert len(buttons) == len(children)
    counted = {kind: sum(kind in b.split() for b in buttons) for kind in ("leaf", "unseen")}
    assert counted == {
        "leaf": sum(c["is_leaf"] for c in children),
        "unseen": sum(c["score"] is None for c in children),
    }
    nodes = re.findall(r'class="child[^"]*chosen"[^>]*data-node="([^"]*)"', html)
    assert nodes == [level["chosen"] for level in full["tree"]]
    assert html.count('class="branch taken"') == 4
    shades = sorted(float(s) for s in re.findall(r"--shade:([\d.]+)", html))
    assert shades[0] == 0
    assert shades[-1] == 1
    # - is both the negation and the difference: their slots tell them apart.
    assert ">-?</span>" in html
    assert ">? - ?</span>" in html


def test_a_level_that_ended_early_says_why(data):
    assert "ended:" not in words(tree_section(data["tree"], LOSS))
    data["tree"][1]["ended"] = "4500 draws"
    assert "ended: 4500 draws" in words(tree_section(data["tree"], LOSS))


COUNTS = {
    "drawn": 100,
    "accepted": 16,
    "duplicate": 10,
    "early_stopped": 2,
    "diverged": 1,
    "failed": 0,
    "timed_out": 0,
    "rejected": 1,
    "refused": {"is constant": 20, "fails the descent test": 50},
}


def test_every_draw_ends_in_one_bar():
    lost = losses(COUNTS)
    assert [loss.many for loss in lost] == [50, 20, 10, 2, 1, 1]
    assert trained(COUNTS) == 20
    assert early_stop_rate(COUNTS) == "10 %"
    html = screened_section(COUNTS)
    bars = [
        (float(left), float(width))
        for left, width in re.findall(r"left:([\d.]+)%;width:([\d.]+)%", html)
    ]
    assert bars[0] == (0, 100)
    assert sum(width for _, width in bars[1:]) == 100
    for (left, _), (next_left, next_width) in itertools.pairwise(bars[1:]):
        assert left == pytest.approx(next_left + next_width)
    assert bars[-1] == (0, 16)
    assert "80 (80 %) needed no training. 20 were trained, of which 10 % were" in words(html)


def test_draws_still_under_way_are_counted_apart():
    text = words(screened_section(COUNTS | {"drawn": 105}))
    assert "not finished54.8 %" in text
    assert screened_section({}) is None


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (significant, 0.56034, "0.560"),
        (significant, -1234.5, "\N{MINUS SIGN}1,234"),
        (significant, 1e-9, "10⁻⁹"),
        (significant, 2.5e8, "2.5·10⁸"),
        (significant, 0, "0.00"),
        (significant, None, "–"),  # noqa: RUF001
        (significant, float("nan"), "–"),  # noqa: RUF001
        (shortest, 0.1, "0.1"),
        (shortest, 3.0, "3"),
        (shortest, 0.0006, "0.0006"),
        (shortest, 12345.0, "12,345"),
        (shortest, 0, "0"),
        (shortest, 2e-5, "2·10⁻⁵"),
        (duration, 3.04, "3.0 s"),
        (duration, 312.4, "5 min 12 s"),
        (duration, 7384, "2 h 3 min"),
        (ACCURACY.quantity.text, 0.9386, "93.86 %"),
        (LOSS.quantity.text, 0.9386, "0.9386"),
    ],
)
def test_numbers_as_people_read_them(function, value, text):
    assert function(value) == text


def test_shares_and_decimals():
    assert [percent(n, 1000) for n in (0, 0.5, 50, 580)] == ["0 %", "< 0.1 %", "5.0 %", "58 %"]
    assert decimals_for([0.2345, 0.4], [0.005, 0.003]) == 3
    assert decimals_for([237.76, 248.9], [5.34, 6.5]) == 0
    assert decimals_for([], []) == 2


def test_the_parts_of_the_rule_are_a_table_and_curves_relative_to_the_whole_rule(data):
    claim = data["claim"]
    assert [part["without"] for part in most_important(claim["ablation"], LOSS)] == [
        "cd", "RMSprop", "mom(g, 0.9) → 5*g", "drop",
    ]  # fmt: skip
    points = relative(claim["ablation"][1], LOSS)
    assert points[0][0] == 100  # the first tenth is not drawn
    assert points[-1] == (1000.0, pytest.approx(8.3))
    html = "".join(map(str, ablation(claim, LOSS)))
    assert html.count("<path") == 5
    assert "makes no difference: removed" in words(html)
    assert "mom(g, 0.9) → 5*g" in words(html)
    in_points = relative({"curve": [[1, 0.5, 0.6], [2, 0.7, 0.8]]}, ACCURACY)
    assert in_points == [(1.0, pytest.approx(-10)), (2.0, pytest.approx(-10))]


def test_parts_without_curves_are_a_table_alone(data):
    parts = [{**part, "curve": []} for part in data["claim"]["ablation"]]
    html = "".join(map(str, ablation({"ablation": parts}, LOSS)))
    assert "<table" in html
    assert "<svg" not in html
    assert ablation({"ablation": []}, LOSS) == []
