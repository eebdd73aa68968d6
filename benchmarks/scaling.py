"""Evaluations per second by stack size, width of the network, and number of workers.

    python benchmarks/scaling.py [--repeats 3] [--output FILE] [--plot docs/scaling.svg]

Rules are evaluated with the paper's protocol, 10 learning rates and then 10 seeds, on networks
784-WIDTH-10 with random data of MNIST's shape, in groups of four, on one core. Stacks have the size
that the library chooses, or a given size. The plain loop trains one copy at a time. Runs have a
quarter of the paper's length, and rates are scaled to its 2 000 steps per evaluation. Repeats of
all sizes are interleaved; medians are shown.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from optsmith import Task, zoo
from optsmith.evaluation import Evaluation, evaluate_recipes
from optsmith.execution import Executor, make_executor
from optsmith.study import SEARCH, Context, Job, prepare, run_job
from optsmith.task import Stage
from optsmith.task._mnistnet import mlp
from optsmith.training import Stacking, choose_stacking
from panels import Line, Panel, draw
from report import header

WIDTHS = (20, 40, 80, 160, 320, 640)
SIZES = (1, 2, 4, 8, 16, 32, 64)
WORKERS = (1, 2)
RULES = [zoo[name].rule for name in ("mnist1", "adam", "sgd", "rmsprop")]
STEPS, PAPER = 25, 2000
Key = TypeVar("Key", bound=Hashable)


def network(width: int) -> Task:
    """Return a task: a network with one hidden layer on random data."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(10_000, 784, generator=generator)
    labels = torch.randint(10, (10_000,), generator=generator)
    make = partial(mlp, (784, width, 10), nn.Sigmoid)
    return Task.from_module(
        make,
        (images, labels),
        cross_entropy,
        objective="training loss",
        steps=1000,
        name=f"{width}",
    )


def parameters(width: int) -> int:
    """Return the number of parameters of a network."""
    return 784 * width + width + 10 * width + 10


def rates(work: Mapping[Key, Callable[[], int]], repeats: int) -> dict[Key, float]:
    """Return evaluations per second; each function returns the number of steps it trained."""
    times: dict[Key, list[float]] = {key: [] for key in work}
    for _ in range(repeats):
        for key, run in work.items():
            start = time.perf_counter()
            steps = run()
            times[key].append((time.perf_counter() - start) / steps)
    return {key: 1 / (PAPER * statistics.median(values)) for key, values in times.items()}


def protocol(task: Task) -> Stage:
    """Return the paper's protocol with shorter runs."""
    stage = task.preset("paper").protocol.search_stage
    return replace(stage, tune_steps=STEPS, steps=STEPS)


def evaluation(task: Task, stacking: Stacking) -> Callable[[], int]:
    """Return a function that evaluates the rules as one group."""

    def run() -> int:
        return sum(
            e.trained for e in evaluate_recipes(task, RULES, protocol(task), stacking=stacking)
        )

    return run


def by_size(repeats: int) -> dict[int, float]:
    """Return evaluations per second by stack size; size 1 is the plain loop."""
    task = network(WIDTHS[0])
    stacking = choose_stacking(task, torch.device("cpu"))
    sizes = {n: replace(stacking, copies=n) for n in SIZES}
    return rates({n: evaluation(task, s) for n, s in sizes.items()}, repeats)


def by_width(repeats: int) -> tuple[dict[int, Stacking], dict[tuple[int, str], float]]:
    """Return the stackings chosen by the library, and evaluations per second with and without."""
    tasks = {width: network(width) for width in WIDTHS}
    chosen = {w: choose_stacking(task, torch.device("cpu")) for w, task in tasks.items()}
    ours = {(w, "library"): evaluation(task, chosen[w]) for w, task in tasks.items()}
    plain = {(w, "plain"): evaluation(task, Stacking()) for w, task in tasks.items()}
    return chosen, rates(ours | plain, repeats)


def by_workers(repeats: int, groups: int = 16) -> dict[int, float]:
    """Return evaluations per second with worker processes, excluding their start."""
    task = network(WIDTHS[0])
    stacking = choose_stacking(task, torch.device("cpu"))
    context = Context(task, {SEARCH: protocol(task)}, stacking)
    job = Job(SEARCH, tuple(map(str, RULES)))

    def work(executor: Executor) -> int:
        for i in range(groups):
            executor.submit(i, job)
        done: list[Evaluation] = []
        while len(done) < groups * len(RULES):
            done += [e for _, found in executor.wait() for e in found]
        return sum(e.trained for e in done)

    with ExitStack() as stack:
        executors = {n: stack.enter_context(make_executor(n)) for n in WORKERS}
        for executor in executors.values():
            executor.start(run_job, context, prepare)
            work(executor)  # starts the workers
        return rates({n: partial(work, executor) for n, executor in executors.items()}, repeats)


def picture(
    sizes: Mapping[int, float],
    widths: Mapping[tuple[int, str], float],
    workers: Mapping[int, float],
) -> str:
    """Return the three tables as charts."""

    def line(way: str) -> list[tuple[float, float]]:
        return [(w, widths[w, way]) for w in WIDTHS]

    return draw(
        "Evaluations per second",
        [
            Panel("copies per stack (1: plain loop)", [Line("", list(sizes.items()))]),
            Panel(
                "width of the hidden layer",
                [Line("plain loop", line("plain"), muted=True), Line("library", line("library"))],
            ),
            Panel("workers", [Line("", list(workers.items()))]),
        ],
    )


@click.command()
@click.option("--repeats", default=3, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write the tables here.")
@click.option("--plot", type=click.Path(path_type=Path), help="SVG file of the charts.")
def main(repeats: int, output: Path | None, plot: Path | None) -> None:
    """Print evaluations per second."""
    torch.set_num_threads(1)
    sizes = by_size(repeats)
    chosen, widths = by_width(repeats)
    workers = by_workers(repeats)
    lines = [
        *header(),
        f"medians of {repeats}; an evaluation is {PAPER} steps",
        f"rules    {', '.join(map(str, RULES))}",
        "",
        f"{'copies per stack':>18}{'evaluations / s':>17}{'/ plain':>9}     784-20-10",
        *(f"{n:>18}{value:>17.3f}{value / sizes[1]:>9.2f}" for n, value in sizes.items()),
        "",
        f"{'width':>8}{'parameters':>12}{'stack':>7}{'evaluations / s':>17}{'plain':>8}"
        f"{'/ plain':>9}",
        *(
            f"{w:>8}{parameters(w):>12}{chosen[w].copies:>7}{widths[w, 'library']:>17.3f}"
            f"{widths[w, 'plain']:>8.3f}{widths[w, 'library'] / widths[w, 'plain']:>9.2f}"
            for w in WIDTHS
        ),
        "",
        f"{'workers':>8}{'evaluations / s':>17}{'/ one':>7}     784-20-10",
        *(f"{n:>8}{value:>17.3f}{value / workers[1]:>7.2f}" for n, value in workers.items()),
        "",
    ]
    click.echo("\n".join(lines))
    if output:
        output.write_text("\n".join(lines))
    if plot:
        plot.write_text(picture(sizes, widths, workers))


if __name__ == "__main__":
    main()
