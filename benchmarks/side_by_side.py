"""Opponents as torch's classes and as rules, on a task: scores on the same seeds, and step times.

    python benchmarks/side_by_side.py benchmarks/tasks/gpt.py:task --output FILE

The learning rate of each optimizer is the best of a short grid for torch's class, on one seed; the
rule uses the same. Classes and rules are trained one run at a time, in turns.
"""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np
import torch

from optsmith.evaluation import compare_paired
from optsmith.optim import Baseline, Recipe, form_of
from optsmith.task import Run, Task, find_task
from optsmith.training import train_once
from report import header

GRID = {
    "sgd": (0.1, 0.3, 1.0),
    "momentum": (0.03, 0.1, 0.3),
    "nesterov": (0.03, 0.1, 0.3),
    "adam": (1e-3, 3e-3, 1e-2),
    "adamw": (1e-3, 3e-3, 1e-2),
    "rmsprop": (3e-4, 1e-3, 3e-3),
    "nadam": (1e-3, 3e-3, 1e-2),
    "radam": (3e-3, 1e-2, 3e-2),
    "muon": (3e-3, 1e-2, 3e-2),
}
SEEDS = (11, 12, 13)
TUNING_SEED = 5


def trained(task: Task, recipe: Recipe, lr: float, seed: int, steps: int) -> tuple[float, float]:
    """Return the score of a run, and its seconds."""
    start = time.perf_counter()
    trace = train_once(task, Run(recipe, lr, seed, steps))
    return task.objective.score(trace.signal), time.perf_counter() - start


def row(task: Task, optimizer: str, steps: int) -> str:
    """Return the line of an optimizer."""
    baseline = Baseline(optimizer, "cosine")
    form = form_of(baseline)
    if form is None:
        raise click.ClickException(f"{baseline} has no rule")
    tuned = {lr: trained(task, baseline, lr, TUNING_SEED, steps)[0] for lr in GRID[optimizer]}
    lr = min(tuned, key=lambda rate: task.objective.key(tuned[rate]))
    scores: dict[str, list[float]] = {"class": [], "rule": []}
    seconds: dict[str, list[float]] = {"class": [], "rule": []}
    for seed in SEEDS:
        for kind, recipe, rate in (("class", baseline, lr), ("rule", form.rule, lr * form.scale)):
            score, taken = trained(task, recipe, rate, seed, steps)
            scores[kind].append(score)
            seconds[kind].append(taken)
    paired = compare_paired(scores["rule"], scores["class"])
    means = [float(np.mean(scores[kind])) for kind in ("class", "rule")]
    spread = float(np.std(scores["class"], ddof=1))
    ms = [1e3 * float(np.median(seconds[kind])) / steps for kind in ("class", "rule")]
    return (
        f"{baseline!s:<24}{lr:>8g}{means[0]:>10.4f}{means[1]:>10.4f}{spread:>10.4f}"
        f"{paired.change:>+10.2%}{ms[0]:>10.2f}{ms[1]:>10.2f}{ms[1] / ms[0]:>8.2f}"
    )


@click.command()
@click.argument("name")
@click.option("--steps", type=int, help="Length of a run; by default that of the task.")
@click.option("--output", type=click.Path(path_type=Path), help="Also write the table here.")
def main(name: str, steps: int | None, output: Path | None) -> None:
    """Compare classes and rules on the task NAME."""
    torch.set_num_threads(1)
    task = find_task(name)
    length = steps or task.preset("quick").protocol.final_steps
    lines = [
        *header(),
        f"task     {task.name}, {task.objective.name}, {length} steps; seeds {SEEDS}; one thread",
        "",
        f"{'optimizer':<24}{'lr':>8}{'class':>10}{'rule':>10}{'spread':>10}{'change':>10}"
        f"{'class ms':>10}{'rule ms':>10}{'ratio':>8}",
    ]
    print("\n".join(lines))
    for optimizer in GRID:
        lines.append(row(task, optimizer, length))
        print(lines[-1], flush=True)
    if output:
        output.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
