"""Speed of a search with stacks, compared with the plain loop and with a lower bound.

    python benchmarks/search_speed.py [--budget 32] [--repeats 3] [--output FILE]

One level of the paper's search on MNISTNET with screening and a journal: 32 evaluations of 10
learning rates, then 10 seeds, 100 steps each. The start of workers is not included. The plain loop
trains one copy at a time, with the data in memory. The lower bound is the number of floating-point
operations of all trained steps, divided by the measured rate of matrix products, with the first
layer of ten copies as one product. Repeats are interleaved; medians are shown.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import torch

from optsmith import spaces
from optsmith.execution import Executor, make_executor
from optsmith.screening import Screen
from optsmith.searchers import MonteCarloTree
from optsmith.study import (
    SEARCH,
    SIDE_BY_SIDE,
    Context,
    Guard,
    Observer,
    Recorder,
    Runner,
    Store,
    Tally,
    prepare,
    run_job,
)
from optsmith.study._clock import Clock
from optsmith.study._forecast import Forecast
from optsmith.task import Task, find_task
from optsmith.training import Stacking, choose_stacking
from report import header

BATCH, WIDTHS = 128, (784, 20, 10)


def flops(batch: int = BATCH, widths: tuple[int, ...] = WIDTHS) -> int:
    """Return the FLOPs of a step: forward, and backward for weights and hidden layers."""
    products = [2 * batch * a * b for a, b in pairwise(widths)]
    return 3 * sum(products) - products[0]


def rate(batches: int, copies: int = 10) -> float:
    """Return the median floating-point operations per second of the first layer of a stack."""
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


def search(task: Task, executor: Executor, group: int, budget: int) -> tuple[float, int]:
    """Return the seconds of a search of one level, and the number of steps trained."""
    options = MonteCarloTree.Options(levels=1, count_all=True)
    searcher = MonteCarloTree(spaces["paper"], budget, options=options)
    screen = Screen(trajectory=None)
    with TemporaryDirectory() as folder, Store.open(folder, "speed") as store:
        clock = Clock(store, time.monotonic())
        forecast = Forecast(task.preset("paper"), (), executor.workers)
        recorder = Recorder(store, searcher, Tally(task.objective), Observer(), clock, forecast)
        guard = Guard(task.name)
        start = time.perf_counter()
        Runner(
            searcher, screen, lambda s: s.fingerprint, executor, group, recorder, guard=guard
        ).run()
        seconds = time.perf_counter() - start
    return seconds, sum(evaluation.trained for _, evaluation in recorder.tally.evaluated)


@click.command()
@click.option("--budget", default=32, show_default=True, help="Number of evaluations.")
@click.option("--repeats", default=3, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write the result here.")
def main(budget: int, repeats: int, output: Path | None) -> None:
    """Print evaluations per minute, and their ratios."""
    torch.set_num_threads(1)
    task = find_task("mnistnet")
    stages = {SEARCH: task.preset("paper").protocol.search_stage}
    stacking = choose_stacking(task, torch.device("cpu"))
    plain, stacked = Context(task, stages, Stacking()), Context(task, stages, stacking)
    with ExitStack() as stack:

        def executor(context: Context, workers: int) -> Executor:
            made = stack.enter_context(make_executor(workers))
            made.start(run_job, context, prepare)
            return made

        alone, one, two = executor(plain, 0), executor(stacked, 1), executor(stacked, 2)
        ways = {
            "plain loop": (alone, 1),
            "1 worker, rules one by one": (one, 1),
            "1 worker": (one, SIDE_BY_SIDE),
            "2 workers": (two, SIDE_BY_SIDE),
        }
        for started in (alone, one, two):
            search(task, started, group=1, budget=2)
        times: dict[str, list[float]] = {way: [] for way in ways}
        rates = []
        for _ in range(repeats):
            rates.append((rate(batches=1), rate(batches=10)))
            for way, (on, group) in ways.items():
                seconds, steps = search(task, on, group, budget)
                times[way].append(seconds)
    shared, own = map(statistics.median, zip(*rates, strict=True))
    bound = steps * flops() / shared
    median = {way: statistics.median(values) for way, values in times.items()}
    lines = [
        *header(),
        f"task     mnistnet, paper preset, {budget} evaluations, {steps} steps;"
        f" medians of {repeats}",
        f"stacks   of up to {stacking.copies} copies, up to {SIDE_BY_SIDE} rules per group",
        f"bound    {flops() / 1e6:.2f} MFLOP per step at {shared / 1e9:.0f} GFLOPS on one core:"
        f" {bound:.2f} s; ten small products reach {own / 1e9:.0f}",
        "",
        f"{'':<28}{'s':>7}{'min':>7}{'max':>7}{'per minute':>12}{'plain /':>9}{'/ bound':>9}"
        f"{'ms per step':>12}",
    ]
    for way, value in median.items():
        lines.append(
            f"{way:<28}{value:>7.2f}{min(times[way]):>7.2f}{max(times[way]):>7.2f}"
            f"{60 * budget / value:>12.0f}{median['plain loop'] / value:>9.2f}{value / bound:>9.2f}"
            f"{value / steps * 1e3:>12.3f}"
        )
    gain = median["1 worker"] / median["2 workers"]
    lines += ["", f"2 workers / 1: {gain:.2f} times as fast", ""]
    click.echo("\n".join(lines))
    if output:
        output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
