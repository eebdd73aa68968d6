"""Precision of the trajectory test: which of the rules that it refuses would have learned.

    python benchmarks/trajectory_test.py TASK [--rules 300] [--seed 7] [--output FILE]

Random rules that pass the paper's descent test are all trained with the paper's protocol. A rule
learns if its score is clearly below the loss of guessing; it is good if it beats SGD with its best
learning rate, which is evaluated in the same run.
"""

from __future__ import annotations

import math
from pathlib import Path

import click
import torch

from lr_search import draw
from optsmith import Rule, Screen
from optsmith.evaluation import Evaluation
from optsmith.execution import make_executor
from optsmith.study import Context, evaluate_all, prepare, run_job
from optsmith.task import find_task
from optsmith.training import choose_stacking
from report import header

GUESSING = math.log(10)
"""Cross-entropy of guessing among ten classes."""


def share(rules: list[Evaluation], refused: set[str]) -> str:
    """Return the number and the share of the rules that are refused."""
    count = sum(e.recipe in refused for e in rules)
    return f"{count} of {len(rules)} ({count / max(len(rules), 1):.1%})"


@click.command()
@click.argument("task")
@click.option("--rules", "count", default=300, show_default=True)
@click.option("--seed", default=7, show_default=True)
@click.option("--workers", default=2, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write the result here.")
def main(task: str, count: int, seed: int, workers: int, output: Path | None) -> None:
    """Print which rules the test would have refused."""
    found = find_task(task)
    rules = draw(count, seed, Screen.paper())
    stages = {"search": found.preset("paper").protocol.search_stage}
    context = Context(found, stages, choose_stacking(found, torch.device("cpu")))
    with make_executor(workers) as executor:
        executor.start(run_job, context, prepare)
        *trained, sgd = sorted(
            evaluate_all(executor, "search", [*rules, Rule.parse("g")]),
            key=lambda e: e.recipe == "g",
        )
    refused = {str(rule) for rule in rules if not Screen()(rule).ok}
    scores = {e.recipe: math.inf if e.score is None else e.score for e in trained}
    bar = sgd.score or math.inf
    learners = [e for e in trained if scores[e.recipe] < 0.9 * GUESSING]
    others = [e for e in trained if scores[e.recipe] >= 0.9 * GUESSING]
    good = [e for e in trained if scores[e.recipe] < bar]
    best = sorted(trained, key=lambda e: scores[e.recipe])[: max(1, count // 100)]
    lines = [
        *header(),
        f"task     {task}; {count} random rules that pass the paper's screen, seed {seed}",
        f"refused of the rules that do not learn (score above {0.9 * GUESSING:.2f}): "
        + share(others, refused),
        f"refused of the rules that learn: {share(learners, refused)}",
        f"refused of the rules better than SGD ({bar:.3f}): {share(good, refused)}",
        f"refused of the best 1 %: {share(best, refused)}",
        f"best lr at the upper edge of the grid: "
        f"{sum(e.at_edge and e.lr == 1.0 for e in trained) / count:.0%}",
        "",
    ]
    click.echo("\n".join(lines))
    if output:
        output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
