"""How fast candidates are evaluated: stacked, by the plain loop, and by arithmetic alone.

    python benchmarks/search_speed.py [--rules 24] [--repeats 3] [--output FILE]

The same random rules are evaluated by the paper's protocol on MNISTNET (10 learning rates, then 10
seeds, 100 steps each) in stacks and by the plain loop: one copy at a time, data in memory, the way
a careful person would write it. The bound: the floating-point operations of all trained steps over
the measured rate of this machine's matrix products: all at the rate of one large product, which
only copies that share a batch can reach; or the seeds' steps at the rate of ten small ones, since
each seed has batches of its own. Repeats alternate; medians are shown.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import click
import torch

from lr_search import draw
from optsmith import Rule
from optsmith.evaluation import Evaluation, _train, evaluate_recipe
from optsmith.execution import make_executor
from optsmith.study import Bench, evaluate_all, evaluate_job
from optsmith.task import Stage, Task, find_task
from report import header

BATCH, WIDTHS = 128, (784, 20, 10)


def flops(batch: int = BATCH, widths: tuple[int, ...] = WIDTHS) -> int:
    """Return the operations of a step: forward; backward for weights and inner layers."""
    products = [2 * batch * a * b for a, b in pairwise(widths)]
    return 3 * sum(products) - products[0]


def rate(batches: int, copies: int = 10) -> float:
    """Return operations a second of the first layer of a stack, forth and back; median of many."""
    width = WIDTHS[1] * copies // batches
    inputs = torch.randn(batches, BATCH, WIDTHS[0])
    weights, slopes = torch.randn(batches, width, WIDTHS[0]), torch.randn(batches, width, BATCH)
    values, gradient = torch.empty_like(slopes), torch.empty_like(weights)
    times = []
    for _ in range(200):
        start = time.perf_counter()
        torch.bmm(weights, inputs.transpose(1, 2), out=values)
        torch.bmm(slopes, inputs, out=gradient)
        times.append(time.perf_counter() - start)
    return 4 * BATCH * WIDTHS[0] * WIDTHS[1] * copies / statistics.median(times)


@contextmanager
def plain() -> Iterator[None]:
    """Train one copy at a time."""
    usual = _train.stacks
    _train.stacks = lambda task, runs: [[i] for i in range(len(runs))]
    try:
        yield
    finally:
        _train.stacks = usual


def timed(work: Callable[[], list[Evaluation]]) -> tuple[float, int]:
    """Return seconds, and steps trained."""
    start = time.perf_counter()
    done = work()
    return time.perf_counter() - start, sum(e.trained for e in done)


def one_process(task: Task, stage: Stage, rules: list[Rule]) -> list[Evaluation]:
    """Evaluate in this process."""
    return [evaluate_recipe(task, rule, stage) for rule in rules]


@click.command()
@click.option("--rules", "count", default=24, show_default=True)
@click.option("--repeats", default=3, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write it here.")
def main(count: int, repeats: int, output: Path | None) -> None:
    """Print evaluations a minute and their ratios."""
    torch.set_num_threads(1)
    task = find_task("mnistnet")
    stage = task.preset("paper").protocol.search_stage
    rules = draw(count, seed=5)
    one_process(task, stage, rules[:2])
    names = ("plain", "stacked, in process", "stacked, 1 worker", "stacked, 2 workers")
    times: dict[str, list[float]] = {name: [] for name in names}
    rates: list[tuple[float, float]] = []
    by_seed = len(stage.seeds) * stage.steps
    part = by_seed / (by_seed + len(stage.lrs) * stage.tune_steps)
    bench = Bench(task, {"search": stage})
    with (
        make_executor(evaluate_job, bench, 1) as one,
        make_executor(evaluate_job, bench, 2) as two,
    ):
        for executor in (one, two):
            list(evaluate_all(executor, "search", rules[:2]))  # the workers start
        for _ in range(repeats):
            rates.append((rate(batches=1), rate(batches=10)))
            with plain():
                seconds, steps = timed(lambda: one_process(task, stage, rules))
            in_process = timed(lambda: one_process(task, stage, rules))[0]
            by_worker = [
                timed(lambda e=e: list(evaluate_all(e, "search", rules)))[0] for e in (one, two)
            ]
            for name, value in zip(names, (seconds, in_process, *by_worker), strict=True):
                times[name].append(value)
    shared, own = map(statistics.median, zip(*rates, strict=True))
    bound = steps * flops() / shared
    loose = steps * flops() * (part / own + (1 - part) / shared)
    median = {name: statistics.median(values) for name, values in times.items()}
    lines = [
        *header(),
        f"task     mnistnet, paper preset, {count} random rules, {steps} steps;"
        f" medians of {repeats}",
        f"bound    {flops() / 1e6:.2f} MFLOP a step at {shared / 1e9:.0f} GFLOPS on one core:"
        f" {bound:.2f} s;",
        f"         seeds, {part:.0%} of the steps, at {own / 1e9:.0f}: {loose:.2f} s",
        "",
        f"{'':<20}{'s':>8}{'least':>8}{'most':>8}{'per minute':>12}{'plain /':>9}{'/ bound':>9}"
        f"{'or':>6}{'ms a step':>11}",
    ]
    for name, value in median.items():
        lines.append(
            f"{name:<20}{value:>8.2f}{min(times[name]):>8.2f}{max(times[name]):>8.2f}"
            f"{60 * count / value:>12.0f}{median['plain'] / value:>9.2f}{value / bound:>9.2f}"
            f"{value / loose:>6.2f}"
            f"{value / steps * 1e3:>11.3f}"
        )
    gain = median["stacked, 1 worker"] / median["stacked, 2 workers"]
    lines += ["", f"2 workers / 1: {gain:.2f} times as fast", ""]
    click.echo("\n".join(lines))
    if output:
        output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
