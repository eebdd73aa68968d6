"""What is printed at the end of a search."""

from __future__ import annotations

import io

from rich.console import Console

import optsmith
from optsmith.cli._result import print_study
from tasks_for_tests import PROTOCOL, bowl


def test_a_search_that_accepts_nothing_says_what_it_wanted(tmp_path):
    study = optsmith.search(
        bowl(), storage=tmp_path, budget=2, options={"levels": 1}, workers=0, compare=[],
        protocol=PROTOCOL.replace(threshold=-1.0),
    )  # fmt: skip
    screen = io.StringIO()
    print_study(study, Console(file=screen, width=80))
    evaluated = len(study.records)
    assert evaluated > 0
    assert f"none of the {evaluated} evaluated rules had a" in screen.getvalue()
    assert "better than -1, the threshold" in screen.getvalue()
