"""How long a training step of MNISTNET takes in a stack, beside the plain loop and the arithmetic.

    python benchmarks/stacking.py [--output FILE] [--repeats N] [--steps N] [--seeds N]

The data are random numbers of MNIST's shape: what they are changes nothing about the time. Repeats
of all stack sizes are interleaved, so that a slow moment of the machine hits them alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from optsmith import Run, Task, zoo
from optsmith.evaluation import train_once
from optsmith.evaluation._examine import examine
from optsmith.evaluation._stackable import MOST_COPIES, stack_bytes
from optsmith.evaluation._stopping import Stopping
from optsmith.evaluation._train import train
from optsmith.task._mnistnet import mlp
from report import header

WIDTHS = (784, 20, 10)
BATCH = 128
RULES = ("sgd", "adam", "mnist1")
SIZES = (1, 10, 20, 40, 80)
# Each weight is multiplied and added for the output, for its gradient, and, but in the first
# layer, for the gradient of its input.
FLOP = 2 * BATCH * (2 * 784 * 20 + 3 * 20 * 10)


def mnistnet() -> Task:
    """Return MNISTNET on random data."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(30_000, 784, generator=generator)
    labels = torch.randint(10, (30_000,), generator=generator)
    make = partial(mlp, WIDTHS, nn.Sigmoid)
    return Task.from_module(make, (images, labels), cross_entropy, steps=1000, name="mnistnet")


def product(copies: int) -> Callable[[], None]:
    """Return the first layer of a stack as two products: its output, and its gradient."""
    weights, inputs = torch.rand(copies * 20, 784), torch.rand(BATCH, 784)
    outputs, gradient = torch.empty(copies * 20, BATCH), torch.empty(copies * 20, 784)

    def run() -> None:
        torch.mm(weights, inputs.T, out=outputs)
        torch.mm(outputs, inputs, out=gradient)

    return run


def gflops(repeats: int) -> float:
    """Return the rate of the concatenated products of 40 copies."""
    run, flop = product(40), 40 * 2 * BATCH * 2 * 784 * 20
    times = []
    for _ in range(20 * repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return flop / statistics.median(times) / 1e9


def measure(task: Task, rule: str, size: int, steps: int, seeds: int) -> float:
    """Return milliseconds of a step of one copy."""
    stopping = Stopping(task.objective)
    runs = [Run(zoo[rule].rule, 1e-3 * (1 + i / 100), i % seeds, steps) for i in range(size)]
    start = time.perf_counter()
    if size == 1:
        train_once(task, runs[0], stopping)
    else:
        train(task, runs, stopping)
    return (time.perf_counter() - start) / steps / size * 1e3


def table(task: Task, rule: str, repeats: int, steps: int, seeds: int, bound: float) -> list[str]:
    """Return the rows of one rule."""
    times: dict[int, list[float]] = {size: [] for size in SIZES}
    measure(task, rule, 2, 10, 1)
    for _ in range(repeats):
        for size in SIZES:
            times[size].append(measure(task, rule, size, steps, seeds))
    plain = statistics.median(times[1])
    footprint = examine(task, torch.device("cpu"))
    lines = [
        f"{rule}: {zoo[rule].rule}",
        f"  {'copies':<10}{'ms':>8}{'least':>8}{'most':>8}{'plain/it':>10}{'/bound':>8}{'MB':>8}",
    ]
    for size, values in times.items():
        median = statistics.median(values)
        memory = stack_bytes(footprint, [zoo[rule].rule], min(size, MOST_COPIES)) / 1e6
        lines.append(
            f"  {'plain' if size == 1 else size:<10}{median:>8.3f}{min(values):>8.3f}"
            f"{max(values):>8.3f}{plain / median:>10.2f}{median / bound:>8.2f}{memory:>8.1f}"
        )
    return lines


@click.command()
@click.option("--output", type=click.Path(path_type=Path), help="Also write the tables here.")
@click.option("--repeats", default=5, show_default=True, help="Measurements; medians are shown.")
@click.option("--steps", default=200, show_default=True, help="Steps of a run.")
@click.option("--seeds", default=1, show_default=True, help="Seeds among a stack's copies.")
def main(output: Path | None, repeats: int, steps: int, seeds: int) -> None:
    """Print milliseconds of a copy's step, and their ratios to the plain loop and the bound."""
    torch.set_num_threads(1)
    rate = gflops(repeats)
    bound = FLOP / rate / 1e6
    lines = [
        *header(),
        f"medians of {repeats} interleaved repeats of {steps} steps; {seeds} seed(s) in a stack;",
        f"stacks of more than {MOST_COPIES} copies are split",
        f"bound    {FLOP / 1e6:.1f} MFLOP a step / {rate:.0f} GFLOPS of the concatenated products"
        f" = {bound:.3f} ms",
        "MB       what `stack_bytes` allows a stack",
        "",
    ]
    for line in lines:
        click.echo(line)
    task = mnistnet()
    for rule in RULES:
        rows = [*table(task, rule, repeats, steps, seeds, bound), ""]
        lines += rows
        click.echo("\n".join(rows))
    if output:
        output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
