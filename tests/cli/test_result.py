"""What is printed at the end of a search."""

from __future__ import annotations

import io
import json
import math
from types import SimpleNamespace

import pytest
from rich.console import Console

import optsmith
from optsmith import Evaluation, Metric, Objective, Status, Study
from optsmith.cli._result import print_study, study_json
from optsmith.cli._table import comparison_table
from optsmith.evaluation import Claim, Comparison, compare_paired
from tasks_for_tests import PROTOCOL, bowl

LOSS = Objective("validation loss")
METRICS = {"test accuracy": Metric("test accuracy", None, "%")}


def row(recipe: str, score: float, seeds: int = 8) -> Evaluation:
    scores = tuple(score * (1 + 0.01 * math.sin(seed + score)) for seed in range(seeds))
    return Evaluation(
        recipe, Status.OK, sum(scores) / seeds, 0.0123456, seeds=tuple(range(seeds)),
        scores=scores, steps=500, metrics={"test accuracy": tuple(1 - s / 10 for s in scores)},
        ms_per_step=1.5, state_bytes=8.0,
    )  # fmt: skip


def comparison(*rows: Evaluation) -> Comparison:
    return Comparison(LOSS, rows, METRICS)


MANY = comparison(
    row("m1 + RMSprop*exp(Adam)", 0.9),
    *(
        row(f"torch:adam+{schedule}", 1.0 + i / 10)
        for i, schedule in enumerate(["cosine", "linear"])
    ),
    *(row(f"{n}*g", 2.0 + n) for n in range(2, 22)),
)


def printed(table, width: int) -> str:
    screen = io.StringIO()
    Console(file=screen, width=width).print(table)
    return screen.getvalue().replace("\N{MINUS SIGN}", "-")


@pytest.mark.parametrize("width", [80, 120])
def test_recipes_are_compared_with_the_best_opponent(width):
    text = printed(comparison_table(MANY, recommended=MANY.rows[0].recipe, width=width), width)
    assert max(map(len, text.splitlines())) <= width
    line = next(line for line in text.splitlines() if "→" in line)
    assert "→ m1 + RMSprop" in line
    assert "-10.0 % (-10.1 to -10.0)" in line
    assert "0.0123" in line
    assert "reference" in next(line for line in text.splitlines() if "adam+cos" in line)
    assert "relative to torch:adam+cosine" in text
    assert ("ms/step" in text) == ("±" in text) == (width == 120)


def test_numbers_are_complete_in_a_narrow_terminal():
    long = comparison(row("sqrt(|m1|)*sign(g)*exp(RMSprop) + Adam*ld - m2", 0.9), *MANY.rows)
    text = printed(comparison_table(long, width=80), 80)
    assert "validation" in text
    assert "accuracy" in text
    cut = [line for line in text.splitlines() if "…" in line]
    assert len(cut) == 4  # names of recipes
    assert all(line.rstrip().endswith("0.0123") for line in text.splitlines()[5:-2])


def test_long_tables_are_cut_but_what_is_claimed_is_shown():
    text = printed(comparison_table(MANY, recommended="21*g", width=120, most=15), 120)
    assert "and 8 more, which are in the report" in text
    assert "→ 21*g" in text
    assert "14*g" not in text
    every = printed(comparison_table(MANY, width=120), 120)
    assert "more" not in every
    assert "14*g" in every


@pytest.mark.parametrize(
    ("seeds", "words"), [((1, 1), "over 1 seed\n"), ((8, 16), "over 8 to 16 seeds\n")]
)
def test_seeds_are_counted_in_plain_english(seeds, words):
    rows = [row(name, 1.0, n) for name, n in zip(("g", "torch:sgd"), seeds, strict=True)]
    table = comparison_table(comparison(*rows))
    assert f"{table.title}\n".endswith(words)


def test_rules_alone_have_no_change():
    assert "change" not in printed(comparison_table(comparison(row("g", 1.0))), 120)


def fake(claim: Claim | None, recommended: str, usage: str = "") -> Study:
    best = SimpleNamespace(recipe="m1 + RMSprop*exp(Adam)", lr=0.1, known="")
    chosen = SimpleNamespace(recipe=recommended, lr=0.3, known="")
    return SimpleNamespace(  # type: ignore[return-value]
        name="mine", location="optsmith-studies/mine.journal", final=MANY, claim=claim,
        recommended=chosen, verdict="It is [bold]worse[/].", about={"usage": usage},
        best=lambda count=None: best if count is None else [best][:count],
    )  # fmt: skip


def claim() -> Claim:
    mine, its = MANY.rows[0], MANY.rows[1]
    return Claim(
        rule=mine.recipe, lr=0.1, opponent=its.recipe, opponent_lr=0.3, recommended=its.recipe,
        paired=compare_paired(mine.scores, its.scores),
    )  # fmt: skip


def test_the_verdict_comes_after_the_table_and_before_what_to_do():
    screen = io.StringIO()
    print_study(fake(claim(), "torch:adam+cosine"), Console(file=screen, width=80))
    *_, blank, verdict, use, cite = screen.getvalue().splitlines()
    assert blank == ""
    assert verdict == "It is [bold]worse[/]."
    assert use.split("   ")[-2:] == [
        "optsmith export mine -o my_optimizer.py", "# torch:adam+cosine, lr 0.3",
    ]  # fmt: skip
    assert cite.endswith("optsmith card mine")


def test_tasks_with_their_own_use_of_rules_have_nothing_to_export():
    screen = io.StringIO()
    print_study(fake(None, "g", usage="use({rule})"), Console(file=screen, width=80))
    assert "optsmith export" not in screen.getvalue()
    assert "use it:   g, lr 0.3" in screen.getvalue()


def test_a_search_that_accepts_nothing_says_what_it_wanted(tmp_path):
    study = optsmith.search(
        bowl(), storage=tmp_path, budget=2, options={"levels": 1}, workers=0, baselines=[],
        protocol=PROTOCOL.replace(threshold=-1.0),
    )  # fmt: skip
    screen = io.StringIO()
    print_study(study, Console(file=screen, width=80))
    evaluated = len(study.records)
    assert evaluated > 0
    assert f"none of the {evaluated} evaluated rules had a" in screen.getvalue()
    assert "better than -1, the threshold" in screen.getvalue()
    data = json.loads(json.dumps(study_json(study)))
    assert (data["recommended"], data["claim"], data["known"]) == (None, None, "")
