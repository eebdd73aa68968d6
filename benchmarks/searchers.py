"""Best score so far against cost, for every search algorithm: the curves of `optsmith compare`.

    python benchmarks/searchers.py mnistnet digits --seeds 0,1,2 --storage searchers --output DIR

All searches of a task may take the same training steps (`--cost`, in full runs), score candidates
by two runs of full length, and start from the same opponents, which race once (`--keep`). There is
no final comparison: the scores are those of the search. `mct`, `uct` and `random` tune the learning
rate of each candidate in runs of 30 % of the length. `paper` is the paper's way: the tree search in
its space, without warm start.

Per task, the medians over the seeds are printed, and curves with bands over the seeds are written
to DIR as `searchers_TASK.svg`. Studies are resumed if they exist.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import optsmith
from kept import Kept
from optsmith import Observer, Study
from optsmith.execution import default_workers, make_executor
from optsmith.report import studies_file
from optsmith.searchers import Mixture
from optsmith.study import compare_studies
from optsmith.task import find_task
from report import header
from wins import problem_of

WAYS: dict[str, dict[str, Any]] = {
    "mixture": {"algorithm": "mixture"},
    "evolution": {"algorithm": "evolution", "space": "modern"},
    "uct": {"algorithm": "uct", "space": "modern"},
    "mct": {"algorithm": "mct", "space": "modern"},
    "random": {"algorithm": "random", "space": "modern"},
    "paper": {"algorithm": "mct", "space": "paper", "warm_start": False},
}
"""Settings of the searches."""

COSTS = {"mnistnet": 400.0, "digits": 400.0, "gpt": 80.0}
"""Full runs that a search may take."""


class SearchOnly(Observer):
    """Ends a study after its search."""

    searched = False

    def told(self, candidate: Any, outcome: Any) -> None:
        """Note that the search has begun."""
        self.searched = True

    def entered(self, phase: str, jobs: int) -> None:
        """Interrupt what comes after the search."""
        if self.searched:
            raise KeyboardInterrupt


def searched(task: str, way: str, seed: int, cost: float, storage: Path, keep: Path) -> Study:
    """Return the study of a search."""
    problem = problem_of(task)
    protocol = Mixture.adapted(find_task(problem).preset("quick")).protocol
    with Kept(make_executor(default_workers()), keep) as running:
        return optsmith.search(
            problem, seed=seed, baselines="modern", protocol=protocol, max_cost=cost, refine=False,
            storage=storage, study=f"{task}-{way}-{seed}", progress=False, executor=running,
            observer=SearchOnly(), **WAYS[way],
        )  # fmt: skip


def table(task: str, studies: list[Study], output: Path | None) -> list[str]:
    """Return the medians of a task's searches, and write their curves."""
    comparison = compare_studies(studies)
    lines = [f"{task:<12}{'seeds':>6}{'best score':>12}{'full runs':>11}{'evaluations':>13}"]
    for row in comparison.rows():
        lines.append(
            f"{row['group'][:40]:<40}{row['studies']:>6}{row['search score']:>12.4g}"
            f"{row['runs']:>11.0f}{row['evaluations']:>13.0f}"
        )
    drawing = studies_file(comparison)
    if output is not None and drawing is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / f"searchers_{task}.svg").write_text(drawing)
    return lines


@click.command()
@click.argument("tasks", nargs=-1, required=True)
@click.option("--seeds", default="0,1,2", help="Search seeds, separated by commas.")
@click.option("--ways", default=",".join(WAYS), help="Searches, separated by commas.")
@click.option("--cost", type=float, help="Full runs of a search; by default that of the task.")
@click.option("--storage", type=click.Path(path_type=Path), default=Path("searchers"))
@click.option("--keep", type=click.Path(path_type=Path), default=Path("kept"))
@click.option("--output", type=click.Path(path_type=Path), help="Directory of table and curves.")
def main(
    tasks: tuple[str, ...],
    seeds: str,
    ways: str,
    cost: float | None,
    storage: Path,
    keep: Path,
    output: Path | None,
) -> None:
    """Compare the search algorithms on TASKS."""
    lines = [*header()]
    for task in tasks:
        studies = [
            searched(task, way, seed, cost or COSTS[task], storage, keep)
            for seed in map(int, seeds.split(","))
            for way in ways.split(",")
        ]
        lines += ["", *table(task, studies, output)]
        print("\n".join(lines), flush=True)
    if output is not None:
        (output / "searchers.txt").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
