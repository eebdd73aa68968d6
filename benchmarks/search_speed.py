"""How fast candidates are evaluated: stacked, by the plain loop, and by arithmetic alone.

    python benchmarks/search_speed.py [--rules 16] [--repeats 5] [--output FILE]

The same random rules are evaluated by the paper's protocol on MNISTNET (10 learning rates, then 10
seeds, 100 steps each) as a search does it, four rules side by side; and by the plain loop: one copy
at a time, data in memory, the way a careful person would write it. The bound: the floating-point operations of all trained steps over
the measured rate of this machine's matrix products, the first layer of ten copies as one product.
Repeats alternate; medians are shown.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import click
import torch

from lr_search import draw
from optsmith import Rule
from optsmith.evaluation import Evaluation, Stacking, choose_stacking
from optsmith.execution import Executor, make_executor
from optsmith.study import Bench, evaluate_job
from optsmith.study._search import SIDE_BY_SIDE
from optsmith.task import find_task
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


def evaluate(executor: Executor, rules: list[Rule], group: int = SIDE_BY_SIDE) -> list[Evaluation]:
    """Evaluate rules in groups, as a search does."""
    groups = [rules[i : i + group] for i in range(0, len(rules), group)]
    for i, together in enumerate(groups):
        executor.submit(i, ("search", together))
    done: list[Evaluation] = []
    while len(done) < len(rules):
        done += [e for _, found in executor.wait() for e in found]
    return done


def timed(work: Callable[[], list[Evaluation]]) -> tuple[float, int]:
    """Return seconds, and steps trained."""
    start = time.perf_counter()
    done = work()
    return time.perf_counter() - start, sum(e.trained for e in done)


@click.command()
@click.option("--rules", "count", default=16, show_default=True)
@click.option("--repeats", default=5, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write it here.")
def main(count: int, repeats: int, output: Path | None) -> None:
    """Print evaluations a minute and their ratios."""
    torch.set_num_threads(1)
    task = find_task("mnistnet")
    stage = task.preset("paper").protocol.search_stage
    rules = draw(count, seed=5)
    stages = {"search": stage}
    stacking = choose_stacking(task, torch.device("cpu"))
    plain = Bench(task, stages, stacking=Stacking())
    bench = Bench(task, stages, stacking=stacking)
    with ExitStack() as stack:

        def executor(bench: Bench, workers: int) -> Executor:
            return stack.enter_context(make_executor(evaluate_job, bench, workers))

        alone, one, two = executor(plain, 0), executor(bench, 1), executor(bench, 2)
        ways = {
            "plain loop": lambda: evaluate(alone, rules),
            "1 worker, rules one by one": lambda: evaluate(one, rules, group=1),
            "1 worker": lambda: evaluate(one, rules),
            "2 workers": lambda: evaluate(two, rules),
        }
        for started in (alone, one, two):
            evaluate(started, rules[:2], group=1)  # what is done once is not counted
        times: dict[str, list[float]] = {way: [] for way in ways}
        rates = []
        for _ in range(repeats):
            rates.append((rate(batches=1), rate(batches=10)))
            for way, work in ways.items():
                seconds, steps = timed(work)
                times[way].append(seconds)
    shared, own = map(statistics.median, zip(*rates, strict=True))
    bound = steps * flops() / shared
    median = {way: statistics.median(values) for way, values in times.items()}
    lines = [
        *header(),
        f"task     mnistnet, paper preset, {count} random rules, {steps} steps;"
        f" medians of {repeats}",
        f"stacks   of up to {stacking.copies} copies, {SIDE_BY_SIDE} rules side by side",
        f"bound    {flops() / 1e6:.2f} MFLOP a step at {shared / 1e9:.0f} GFLOPS on one core:"
        f" {bound:.2f} s; ten small products reach {own / 1e9:.0f}",
        "",
        f"{'':<28}{'s':>7}{'least':>7}{'most':>7}{'per minute':>12}{'plain /':>9}{'/ bound':>9}"
        f"{'ms a step':>11}",
    ]
    for way, value in median.items():
        lines.append(
            f"{way:<28}{value:>7.2f}{min(times[way]):>7.2f}{max(times[way]):>7.2f}"
            f"{60 * count / value:>12.0f}{median['plain loop'] / value:>9.2f}{value / bound:>9.2f}"
            f"{value / steps * 1e3:>11.3f}"
        )
    gain = median["1 worker"] / median["2 workers"]
    lines += ["", f"2 workers / 1: {gain:.2f} times as fast", ""]
    click.echo("\n".join(lines))
    if output:
        output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
