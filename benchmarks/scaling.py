"""How the cost of an evaluation grows: with the stack, the network's width, and workers.

    python benchmarks/scaling.py [--repeats 3] [--output FILE] [--plot docs/scaling.svg]

Rules are evaluated as in the paper's protocol: 10 learning rates, then 10 seeds, 100 steps each, on
networks 784-WIDTH-10 with random data of MNIST's shape; four rules side by side, in stacks of the
size that the library chooses or of a given one, on one core. The plain loop trains one copy at a
time. Repeats of all sizes are interleaved; medians are shown.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from optsmith import Task, zoo
from optsmith.evaluation import Stacking, choose_stacking, evaluate_recipes
from optsmith.execution import make_executor
from optsmith.study import Bench, evaluate_job
from optsmith.study._search import SIDE_BY_SIDE
from optsmith.task._mnistnet import mlp
from panels import Line, Panel, draw
from report import header

WIDTHS = (20, 40, 80, 160, 320, 640)
SIZES = (1, 2, 4, 8, 16, 32, 64)
WORKERS = (1, 2)
RULES = [zoo[name].rule for name in ("mnist1", "adam", "sgd", "rmsprop")]
Key = TypeVar("Key", bound=Hashable)


def network(width: int) -> Task:
    """Return a network of one hidden layer on random data."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(10_000, 784, generator=generator)
    labels = torch.randint(10, (10_000,), generator=generator)
    make = partial(mlp, (784, width, 10), nn.Sigmoid)
    return Task.from_module(make, (images, labels), cross_entropy, steps=1000, name=f"{width}")


def parameters(width: int) -> int:
    """Return the parameters of a network."""
    return 784 * width + width + 10 * width + 10


def rates(work: Mapping[Key, Callable[[], int]], repeats: int) -> dict[Key, float]:
    """Return evaluations a second; each piece of work says how many it did."""
    times: dict[Key, list[float]] = {key: [] for key in work}
    for _ in range(repeats):
        for key, run in work.items():
            start = time.perf_counter()
            count = run()
            times[key].append((time.perf_counter() - start) / count)
    return {key: 1 / statistics.median(values) for key, values in times.items()}


def evaluation(task: Task, stacking: Stacking, count: int = len(RULES)) -> Callable[[], int]:
    """Return the evaluation of so many rules side by side."""
    stage = task.preset("paper").protocol.search_stage
    return lambda: len(evaluate_recipes(task, RULES[:count], stage, stacking=stacking))


def by_size(repeats: int) -> dict[int, float]:
    """Return evaluations a second in stacks of several sizes, 1 being the plain loop."""
    task = network(WIDTHS[0])
    stacking = choose_stacking(task, torch.device("cpu"))
    sizes = {n: replace(stacking, copies=n) for n in SIZES}
    return rates({n: evaluation(task, s, 1 if n == 1 else 4) for n, s in sizes.items()}, repeats)


def by_width(repeats: int) -> tuple[dict[int, Stacking], dict[tuple[int, str], float]]:
    """Return what the library chose, and evaluations a second: its way, and plainly."""
    tasks = {width: network(width) for width in WIDTHS}
    chosen = {w: choose_stacking(task, torch.device("cpu")) for w, task in tasks.items()}
    ours = {(w, "library"): evaluation(task, chosen[w]) for w, task in tasks.items()}
    plain = {(w, "plain"): evaluation(task, Stacking(), 1) for w, task in tasks.items()}
    return chosen, rates(ours | plain, repeats)


def by_workers(repeats: int, count: int = 32) -> dict[int, float]:
    """Return evaluations a second with worker processes, their start not counted."""
    task = network(WIDTHS[0])
    rules = (RULES * count)[:count]
    stacking = choose_stacking(task, torch.device("cpu"))
    bench = Bench(task, {"search": task.preset("paper").protocol.search_stage}, stacking=stacking)
    found = {}
    for workers in WORKERS:
        with make_executor(evaluate_job, bench, workers) as executor:

            def run() -> int:
                groups = range(0, count, SIDE_BY_SIDE)
                for i in groups:
                    executor.submit(i, ("search", rules[i : i + SIDE_BY_SIDE]))
                done = 0
                while done < len(groups):
                    done += len(executor.wait())
                return count

            run()
            found[workers] = rates({workers: run}, repeats)[workers]
    return found


def picture(
    sizes: Mapping[int, float],
    widths: Mapping[tuple[int, str], float],
    workers: Mapping[int, float],
) -> str:
    """Return the three tables as charts."""

    def line(way: str) -> list[tuple[float, float]]:
        return [(w, widths[w, way]) for w in WIDTHS]

    return draw(
        "Evaluations a second on one core, against stack size, width and workers",
        [
            Panel("copies in a stack", [Line("", list(sizes.items()))]),
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
@click.option("--plot", type=click.Path(path_type=Path), help="Where to draw them.")
def main(repeats: int, output: Path | None, plot: Path | None) -> None:
    """Print evaluations a second."""
    torch.set_num_threads(1)
    sizes = by_size(repeats)
    chosen, widths = by_width(repeats)
    workers = by_workers(repeats)
    lines = [
        *header(),
        f"medians of {repeats}; an evaluation is 2 000 steps; rules: {', '.join(map(str, RULES))}",
        "",
        f"{'copies in a stack':>18}{'evaluations / s':>17}{'/ plain':>9}     784-20-10",
        *(f"{n:>18}{value:>17.3f}{value / sizes[1]:>9.2f}" for n, value in sizes.items()),
        "",
        f"{'width':>8}{'parameters':>12}{'stack':>7}{'evaluations / s':>17}{'plain':>8}{'/ plain':>9}",
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
