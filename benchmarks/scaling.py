"""How the cost of evaluating a rule grows: with the width of the network, and with workers.

    python benchmarks/scaling.py [--repeats 3] [--output FILE] [--plot docs/scaling.svg]

A rule is evaluated as in the paper's protocol: 10 learning rates, then 10 seeds, 100 steps each, on
networks 784-WIDTH-10 with random data of MNIST's shape. In stacks as the library decides, beside
the plain loop; wide networks are trained plainly either way. benchmarks/stacking.py has the size of
the stack.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from pathlib import Path

import click
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from optsmith import Task, zoo
from optsmith.evaluation import evaluate_recipe
from optsmith.execution import make_executor
from optsmith.study import Bench, evaluate_all, evaluate_job
from optsmith.task._mnistnet import mlp
from report import header
from search_speed import plain

WIDTHS = (20, 40, 80, 160, 320, 640)
RULE = zoo["mnist1"].rule


def network(width: int) -> Task:
    """Return a network of one hidden layer on random data."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(10_000, 784, generator=generator)
    labels = torch.randint(10, (10_000,), generator=generator)
    make = partial(mlp, (784, width, 10), nn.Sigmoid)
    return Task.from_module(make, (images, labels), cross_entropy, steps=1000, name=f"{width}")


def seconds(task: Task, repeats: int) -> tuple[float, float]:
    """Return the median seconds of an evaluation: as the library does it, and plainly."""
    stage = task.preset("paper").protocol.search_stage
    times: dict[str, list[float]] = {"stacked": [], "plain": []}
    evaluate_recipe(task, RULE, task.preset("smoke").protocol.search_stage)
    for _ in range(repeats):
        start = time.perf_counter()
        evaluate_recipe(task, RULE, stage)
        times["stacked"].append(time.perf_counter() - start)
        with plain():
            start = time.perf_counter()
            evaluate_recipe(task, RULE, stage)
            times["plain"].append(time.perf_counter() - start)
    return statistics.median(times["stacked"]), statistics.median(times["plain"])


def rate(task: Task, workers: int, count: int, repeats: int) -> float:
    """Return evaluations a minute with worker processes, their start not counted."""
    rules = [entry.rule for entry in list(zoo.values())[:count]]
    bench = Bench(task, {"search": task.preset("paper").protocol.search_stage})
    with make_executor(evaluate_job, bench, workers) as executor:
        list(evaluate_all(executor, "search", rules[:workers]))
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            list(evaluate_all(executor, "search", rules))
            times.append(time.perf_counter() - start)
    return 60 * count / statistics.median(times)


def plot(rows: list[tuple[int, float, float]]) -> str:
    """Return a chart of both ways against the width, on logarithmic axes, as SVG."""
    from math import log10

    left, right, top, bottom = 70, 610, 20, 300
    high = log10(max(max(r[1:]) for r in rows)) + 0.1
    low = log10(min(min(r[1:]) for r in rows)) - 0.1

    def x(width: int) -> float:
        share = (log10(width) - log10(WIDTHS[0])) / (log10(WIDTHS[-1]) - log10(WIDTHS[0]))
        return left + share * (right - left)

    def y(value: float) -> float:
        return bottom - (log10(value) - low) / (high - low) * (bottom - top)

    def line(column: int, colour: str, name: str, away: int) -> str:
        points = " ".join(f"{x(int(r[0])):.1f},{y(r[column]):.1f}" for r in rows)
        at = rows[2]
        return (
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{x(at[0]):.0f}" y="{y(at[column]) + away:.0f}" fill="{colour}"'
            f' text-anchor="start">{name}</text>'
        )

    marks = [v for e in range(-2, 4) for v in (10.0**e, 3 * 10.0**e) if low <= log10(v) <= high]
    grid = "".join(
        f'<path d="M{left} {y(v):.1f}H{right}" stroke="#8884"/>'
        f'<text x="{left - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v:g} s</text>'
        for v in marks
    )
    names = "".join(
        f'<text x="{x(w):.1f}" y="{bottom + 20}" text-anchor="middle">{w}</text>' for w in WIDTHS
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 350" font-family="sans-serif"'
        ' font-size="13" fill="#777"><title>Seconds to evaluate one rule by the paper\'s protocol'
        f" against the width of the hidden layer</title>{grid}{names}"
        f'<text x="{(left + right) / 2}" y="342" text-anchor="middle">'
        "width of the hidden layer</text>"
        f"{line(2, '#888', 'plain loop', -12)}"
        f"{line(1, '#c2410c', 'as the library does it', 26)}</svg>\n"
    )


@click.command()
@click.option("--repeats", default=3, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write the table here.")
@click.option("--plot", "picture", type=click.Path(path_type=Path), help="Where to draw it.")
def main(repeats: int, output: Path | None, picture: Path | None) -> None:
    """Print seconds an evaluation, and evaluations a minute."""
    torch.set_num_threads(1)
    rows = [(width, *seconds(network(width), repeats)) for width in WIDTHS]
    lines = [
        *header(),
        f"rule     {RULE}; medians of {repeats}; seconds for one evaluation (2 000 steps)",
        "",
        f"{'width':>8}{'parameters':>12}{'library':>10}{'plain':>10}{'plain / it':>12}",
        *(
            f"{w:>8}{784 * w + w + 10 * w + 10:>12}{ours:>10.2f}{its:>10.2f}{its / ours:>12.2f}"
            for w, ours, its in rows
        ),
        "",
    ]
    task, one = network(20), 0.0
    for workers in (1, 2):
        found = rate(task, workers, 12, repeats)
        one = one or found
        lines.append(
            f"{workers} workers: {found:.0f} evaluations a minute, {found / one:.2f} times"
        )
    click.echo("\n".join([*lines, ""]))
    if output:
        output.write_text("\n".join([*lines, ""]))
    if picture:
        picture.write_text(plot(rows))


if __name__ == "__main__":
    main()
