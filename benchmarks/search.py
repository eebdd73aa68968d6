"""Results of searches on real data: rules found, screening statistics, and search overhead.

    python benchmarks/search.py TASK [--preset P] [--seeds 0,1,2] [--algorithms mct,random]
        [--lr-searches grid,auto] [--compare torch:adam,torch:nesterov+linear] [--output FILE]

The references are torch's Adam and the best baseline, tuned on the same grid and seeds in the same
run. With several seeds, a table at the end shows mean and standard deviation. The overhead is the
processor time of the coordinator, which draws, screens and records candidates.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from optsmith import Study, search
from optsmith.evaluation import Status, mean_and_spread
from optsmith.execution import Executor, Processes
from optsmith.optim import Baseline
from optsmith.study import Observer
from optsmith.task import Task, find_task
from report import header


class Clock:
    """Measures the coordinator's processor time between its workers' first and last results."""

    def __init__(self) -> None:
        self.start: tuple[float, float] | None = None
        self.end = (0.0, 0.0)
        self._wait = Processes.wait

    def __enter__(self) -> Clock:
        def wait(executor: Executor, *arguments: Any) -> Any:
            result = self._wait(executor, *arguments)
            self.end = time.perf_counter(), time.process_time()
            self.start = self.start or self.end
            return result

        Processes.wait = wait  # type: ignore[method-assign,assignment]
        return self

    def __exit__(self, *_: object) -> None:
        Processes.wait = self._wait  # type: ignore[method-assign]

    @property
    def overhead(self) -> float:
        """Processor time of the coordinator, all threads, divided by the elapsed time."""
        start = self.start or self.end
        return (self.end[1] - start[1]) / (self.end[0] - start[0])


def run(
    task: Task, kind: Kind, seed: int, preset: str, workers: int, compare: list[Baseline] | None
) -> tuple[Study, list[str]]:
    """Run one search; return the study and its description."""
    begin = time.perf_counter()
    protocol = task.preset(preset).protocol
    if kind.lr_search:
        protocol = protocol.replace(lr_search=kind.lr_search)
    with tempfile.TemporaryDirectory() as folder, Clock() as clock:
        study = search(
            task, algorithm=kind.algorithm, seed=seed, preset=preset, protocol=protocol,
            workers=workers, storage=folder, baselines=compare, observer=Observer(),
        )  # fmt: skip
    return study, [
        f"{kind}, seed {seed}: {time.perf_counter() - begin:.0f} s with {workers} workers;"
        f" search, screening and storage take {clock.overhead:.2%} of the time",
        *(f"  {line}" for line in describe(study)),
        "",
    ]


@dataclass(frozen=True)
class Kind:
    """A configuration of a search.

    Attributes:
        algorithm: Name of the searcher.
        lr_search: Name of the learning-rate search; empty for that of the preset.
    """

    algorithm: str
    lr_search: str = ""

    def __str__(self) -> str:
        return f"{self.algorithm} {self.lr_search}".strip()


def totals(found: dict[Kind, list[Study]]) -> list[str]:
    """Return the results per configuration, with mean and standard deviation over seeds."""
    lines = [f"{'':<16}{'held-out':>18}{'search score':>20}{'steps trained':>18}{'rules':>8}"]
    for kind, studies in found.items():
        cells = []
        for values, form in (
            ([s.best().held_out_score for s in studies], ".4f"),
            ([s.best().search_score for s in studies], ".4f"),
            ([float(sum(e.trained for e in s.evaluations)) for s in studies], ".0f"),
        ):
            mean, spread = mean_and_spread(values)
            cells.append(f"{mean:{form}} ± {spread:{form}}")
        trained = sum(len(s.evaluations) for s in studies) / len(studies)
        lines.append(f"{kind!s:<16}{cells[0]:>18}{cells[1]:>20}{cells[2]:>18}{trained:>8.0f}")
    return [*lines, ""]


def describe(study: Study) -> list[str]:
    """Return the description of a study as lines."""
    counts = study.summary["counts"]
    trained = study.evaluations
    stopped = [e for e in trained if e.status in (Status.EARLY_STOPPED, Status.DIVERGED)]
    best, final = study.best(), study.final
    rows = [best.held_out, *(e for e in final.rows if e.recipe == "torch:adam")]
    rows += final.baselines[:1]
    lines = [
        f"drawn {counts['drawn']}, accepted {counts['accepted']}, duplicates {counts['duplicate']},"
        f" refused {counts['refused']}",
        f"early-stopped or diverged: {len(stopped)} of {len(trained)}"
        f" ({len(stopped) / len(trained):.1%})",
        f"best lr at the edge of the grid: {sum(e.at_edge for e in trained)} of {len(trained)}",
        f"path: {' > '.join(d['node'] for d in study.summary['searcher'].get('decisions', []))}",
        f"winner: {best.recipe}, search score {best.search.score:.4f} ± {best.search.spread:.4f}",
        "best by search score: "
        + "; ".join(f"{found.recipe} {found.search_score:.4f}" for found in study.best(5)),
    ]
    for row in rows:
        if row is not None and row.score is not None:
            name, values = next(
                ((n, v) for n, v in row.metrics.items() if "accuracy" in n), ("", (0.0,))
            )
            mean, spread = mean_and_spread(values)
            lines.append(
                f"held-out, {row.steps} steps, {len(row.scores)} seeds: {row.recipe:<28}"
                f" {row.score:.4f} ± {row.spread:.4f} (sum {row.score * row.steps:.1f}),"
                f" {name} {mean:.2%} ± {spread * 100:.2f},"
                f" lr {row.lr:.4g}{'*' if row.at_edge else ''}"
            )
    return [*lines, study.verdict]


@click.command()
@click.argument("task")
@click.option("--preset", default="paper", show_default=True)
@click.option("--seeds", default="0", show_default=True)
@click.option("--algorithms", default="mct", show_default=True)
@click.option("--lr-searches", default="", help="grid, halving, auto; default: that of the preset.")
@click.option("--compare", help="Baselines to compare with; default: all.")
@click.option("--workers", default=2, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write the result here.")
def main(
    task: str,
    preset: str,
    seeds: str,
    algorithms: str,
    lr_searches: str,
    compare: str | None,
    workers: int,
    output: Path | None,
) -> None:
    """Run the searches and print their results."""
    lines = [*header(), f"task     {task}, preset {preset}; * = lr at the edge of its grid", ""]
    for line in lines:
        click.echo(line)
    searched = find_task(task)
    chosen = None if compare is None else [Baseline.parse(c) for c in compare.split(",")]
    kinds = [Kind(a, way) for a in algorithms.split(",") for way in lr_searches.split(",")]
    found: dict[Kind, list[Study]] = {kind: [] for kind in kinds}
    for seed in map(int, seeds.split(",")):
        for kind in kinds:
            study, facts = run(searched, kind, seed, preset, workers, chosen)
            found[kind].append(study)
            click.echo("\n".join(facts))
            lines += facts
            if output:
                output.write_text("\n".join(lines))
    if "," in seeds:
        click.echo("\n".join(totals(found)))
        if output:
            output.write_text("\n".join([*lines, *totals(found)]))


if __name__ == "__main__":
    main()
