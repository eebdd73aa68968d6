"""Comparison of the learning-rate searches `grid`, `halving` and `auto` on the same random rules.

    python benchmarks/lr_search.py TASK [--rules 300] [--seed 11] [--output FILE]

Random rules that pass the screen are evaluated with each method and the paper's protocol: the
learning rate is selected on runs of 100 steps, and the score is the mean over 10 other seeds. The
reference is the full grid. "Tuning steps" are the steps trained to select the learning rate.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping
from pathlib import Path

import click
import torch

from optsmith import Rule, Screen, spaces
from optsmith.evaluation import Evaluation
from optsmith.execution import make_executor
from optsmith.study import Context, evaluate_all, prepare, run_job
from optsmith.task import find_task
from optsmith.training import choose_stacking
from report import header

WAYS = ("grid", "halving", "auto")


def draw(count: int, seed: int, screen: Screen | None = None) -> list[Rule]:
    """Return random rules that pass the screen and are distinct up to a positive factor."""
    rng, screen = random.Random(seed), screen or Screen()
    found: dict[str, Rule] = {}
    while len(found) < count:
        rule = spaces["paper"].sample(rng)
        screening = screen(rule)
        if screening.ok:
            found.setdefault(screening.scale_fingerprint, rule)
    return list(found.values())


def score(evaluation: Evaluation) -> float:
    """Return the score; infinity for a failed evaluation."""
    return math.inf if evaluation.score is None else evaluation.score


def compare(results: Mapping[str, Mapping[str, Evaluation]], scoring: int) -> list[str]:
    """Return one line per method, and the comparison with the grid."""
    lines = []
    for way, found in results.items():
        scores = [score(e) for e in found.values()]
        trained = [e.trained - scoring * (e.score is not None) for e in found.values()]
        finite = [s for s in scores if s < math.inf]
        lines.append(
            f"{way:<8} {statistics.mean(trained):6.0f} tuning steps per rule;"
            f" {len(finite)} rules trained; score: median {statistics.median(scores):.3f},"
            f" best {min(scores):.4f};"
            f" under 0.7: {sum(s < 0.7 for s in scores)}, under 1: {sum(s < 1 for s in scores)};"
            f" lr at the edge: {sum(e.at_edge for e in found.values())}"
        )
    grid = results["grid"]
    for way in WAYS[1:]:
        pairs = [(score(e), score(grid[name])) for name, e in results[way].items()]
        both = [(mine, its) for mine, its in pairs if max(mine, its) < math.inf]
        better = sum(mine < 0.98 * its for mine, its in pairs)
        worse = sum(mine > 1.02 * its for mine, its in pairs)
        same = sum(e.lr == grid[name].lr for name, e in results[way].items())
        ratio = statistics.geometric_mean(mine / its for mine, its in both)
        lines.append(
            f"{way} / grid: score ratio {ratio:.3f} (geometric mean of {len(both)}); better by 2 %"
            f" on {better}, worse by 2 % on {worse} of {len(pairs)}; same lr on {same}"
        )
    return lines


@click.command()
@click.argument("task")
@click.option("--rules", "count", default=300, show_default=True)
@click.option("--seed", default=11, show_default=True)
@click.option("--workers", default=2, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write the result here.")
def main(task: str, count: int, seed: int, workers: int, output: Path | None) -> None:
    """Print the comparison of the methods."""
    found = find_task(task)
    protocol = found.preset("paper").protocol
    rules = draw(count, seed)
    stages = {way: protocol.replace(lr_search=way).search_stage for way in WAYS}
    context = Context(found, stages, choose_stacking(found, torch.device("cpu")))
    with make_executor(workers) as executor:
        executor.start(run_job, context, prepare)
        results = {way: {e.recipe: e for e in evaluate_all(executor, way, rules)} for way in WAYS}
    lines = [
        *header(),
        f"task     {task}; {count} random rules that pass the screen, seed {seed}",
        "",
        *compare(results, protocol.steps * protocol.score_seeds),
        "",
    ]
    click.echo("\n".join(lines))
    if output:
        output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
