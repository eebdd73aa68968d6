"""The history of searches of every kind: phases as bands, and runs of several lengths."""

from __future__ import annotations

from types import SimpleNamespace

from optsmith.report._history import accepted, history_section, tip
from optsmith.report._tree import tree_levels
from optsmith.report._values import Goal, Quantity

LOSS = Goal(Quantity("training loss"), True)


def entry(n, score, fidelity=1.0, phase="", status="ok"):
    return {
        "n": n, "candidate": str(n), "phase": phase, "fidelity": fidelity, "rule": f"{n}*g",
        "length": 3, "score": score, "status": status, "lr": 0.1, "at_edge": False,
    }  # fmt: skip


RUNGS = [entry(n, n / 100, 0.1, "rung 10 %") for n in range(1, 31)]
RUNGS += [entry(n, n / 10, 0.3, "rung 30 %") for n in range(31, 41)]
RUNGS += [entry(n, 9 - n / 10, 1.0, "rung 100 %") for n in range(41, 44)]


def test_bands_are_the_phases_of_the_search():
    html = str(history_section(RUNGS, LOSS))
    assert html.count('class="band') == 3
    assert ">Rung 10 %<" in html
    assert ">100 %<" in html  # where the band is narrow
    assert 'class="band' not in str(history_section([entry(n, 1.0) for n in (1, 2)], LOSS))


def test_only_the_longest_runs_count_as_best():
    assert [e["n"] for e in accepted(RUNGS)] == [41, 42, 43]
    assert [e["n"] for e in accepted(RUNGS[:40])] == list(range(31, 41))
    html = str(history_section(RUNGS, LOSS))
    assert "number 43 has the best score" in html
    assert html.count('class="dot record"') == 3
    assert "shorter runs" in html


def test_a_tip_says_where_and_for_how_long_a_rule_was_trained():
    assert tip(RUNGS[0], LOSS).splitlines()[-2:] == [
        "trained for 10% of the run",
        "evaluation 1, rung 10 %",
    ]
    assert tip(entry(3, 0.5), LOSS).splitlines()[-1] == "evaluation 3"


def test_searchers_without_a_tree_have_none():
    assert tree_levels(SimpleNamespace(summary={}, name="s", location="here")) == []
