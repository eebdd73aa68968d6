"""Whether searches beat tuned optimizers: the claims of several searches in one table.

    python benchmarks/wins.py mnistnet digits --seeds 0,1 --storage wins --output FILE

Each row is a study, which is resumed if it exists: the best rule against the best opponent of the
set `modern` with its learning rate tuned, against the same opponent equally tuned (all its
constants, with as many training steps as the search took), and against the best rule of random
search with as many training steps, which is run once per task, with seed 0. All numbers are on
report seeds, paired by seed. The tasks
`gpt`, `cnn` and `regression` are those of benchmarks/tasks; each study has 30 minutes, and half as
much again for the equally tuned row. On the others, the opponents are tuned once per task and kept
(`--keep`), because their evaluations do not depend on the seed of a search.

Rows are also written to FILE with the suffix .jsonl, each with its commit, machine and date. Rows
that are there are not repeated, so a table can grow over several machines and days.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import click

import optsmith
from kept import Kept
from optsmith import Observer, Study
from optsmith.evaluation import Paired, compare_evaluations
from optsmith.execution import Executor, default_workers, make_executor
from report import header

OWN = ("gpt", "cnn", "regression")
"""Tasks of benchmarks/tasks."""

OWN_TIME = "45m"
"""Time of a study on one of them by default: a third of it tunes the opponent equally."""

RUNS_PER_RANDOM_RULE = 10.75 + 4
"""Runs that tune and score a random rule, in units of its length: a tenth of a full run."""

SIGNIFICANT = 0.01
"""p-value below which a search beats its opponent."""


class Stopwatch(Observer):
    """Measures the time of the equally tuned row, which is not part of the search."""

    begun: float | None = None
    seconds = 0.0

    def entered(self, phase: str, jobs: int) -> None:
        """Note when the equal tuning starts."""
        if phase == "equal tuning" and jobs and self.begun is None:
            self.begun = time.monotonic()

    def finished(self) -> None:
        """Note when it ends."""
        self.seconds = 0.0 if self.begun is None else time.monotonic() - self.begun


@dataclass(frozen=True)
class Row:
    """The claims of one search.

    Attributes:
        paired: Against the best opponent with its learning rate tuned.
        equally: Against the same opponent, equally tuned.
        random: Against random search at equal cost.
        share: Share of the opponent's steps in which the rule has its result.
        details: The rule and the cost of the search.
        made: Commit, machine, versions and date.
    """

    task: str
    seed: int
    opponent: str
    paired: Paired
    equally: Paired | None
    random: Paired | None
    share: str
    details: str
    made: Sequence[str] = ()

    @classmethod
    def from_json(cls, text: str) -> Row:
        """Return the row of a line of JSON."""
        data: dict[str, Any] = json.loads(text)
        for name in ("paired", "equally", "random"):
            data[name] = data[name] and Paired(**data[name])
        return cls(**data)

    def to_json(self) -> str:
        """Return the row as a line of JSON."""
        return json.dumps(asdict(self))

    def lines(self) -> list[str]:
        """Return the row as text."""
        return [
            f"{self.task:<18}{self.seed:>5}  {self.opponent:<26}{change(self.paired):<38}"
            f"{self.share:>6}  {change(self.equally):<38}{change(self.random)}",
            f"{'':<25}{self.details}",
            f"{'':<25}{', '.join(self.made)}",
        ]


MADE = tuple(line.split(maxsplit=1)[1] for line in header())[1:]
"""Commit, machine, versions and date of the start of this program."""


def change(paired: Paired | None) -> str:
    """Return a relative change with its interval and p-value."""
    if paired is None:
        return "-"
    p = "" if math.isnan(paired.p) else f", p {paired.p:.2g}"
    return f"{paired.change:+.1%} ({paired.low:+.1%} to {paired.high:+.1%}{p})"


def steps_of(study: Study) -> int:
    """Return the training steps of a study's search."""
    return sum(e.trained for e in study.evaluations)


def problem_of(task: str) -> str:
    """Return the task as `search` takes it."""
    return f"{Path(__file__).parent / 'tasks' / task}.py:task" if task in OWN else task


def executor(keep: Path | None) -> Executor:
    """Return the executor of a study."""
    workers = make_executor(default_workers())
    return workers if keep is None else Kept(workers, keep)


def row(
    task: str, seed: int, storage: Path, with_random: bool, own_time: str, keep: Path | None
) -> Row | None:
    """Return the claims of one search; None if it makes none."""
    is_own, problem = task in OWN, problem_of(task)
    watch = Stopwatch()
    with executor(None if is_own else keep) as running:
        study = optsmith.search(
            problem, seed=seed, baselines="modern", equally_tuned=True, storage=storage,
            study=f"{task}-{seed}", max_time=own_time if is_own else None, progress=False,
            observer=watch, executor=running,
        )  # fmt: skip
    claim = study.claim
    if claim is None:
        return None
    share = "" if claim.speed_up is None else f"{claim.speed_up.share:.0%}"
    seconds = study.summary["seconds"]
    aside = f", of which {watch.seconds:.0f} s for the equally tuned row" if watch.seconds else ""
    return Row(
        task, seed, claim.opponent, claim.paired, claim.equally_tuned,
        against_random(problem, study, storage, keep) if with_random else None, share,
        f"{study.best().simplified}, lr {claim.lr:.4g}; {sum(claim.trained.values()):,} steps,"
        f" {seconds:.0f} s{aside}", MADE,
    )  # fmt: skip


def against_random(problem: str, study: Study, storage: Path, keep: Path | None) -> Paired | None:
    """Return a study's best rule compared with that of random search at equal cost."""
    full = study.stored_settings.search.protocol.final_steps
    # Rounded, because searches with different seeds take slightly different numbers of steps.
    budget = 10 * round(steps_of(study) / (RUNS_PER_RANDOM_RULE * full))
    with executor(keep) as running:
        other = optsmith.search(
            problem, space="paper", baselines="modern", algorithm="random", seed=0,
            budget=budget, refine=False, storage=storage,
            study=f"{study.stored_settings.task}-random-{budget}", progress=False, executor=running,
        )  # fmt: skip
    mine, its = study.best().held_out, other.best().held_out
    if mine is None or its is None:
        return None
    return compare_evaluations(mine, its, study.objective)


def summary(rows: Sequence[Row]) -> list[str]:
    """Return a line per task: mean changes, and how many searches beat their opponents."""
    lines = ["", f"{'task':<18}{'seeds':>5}  learning rate tuned    equally tuned          random"]
    for task in dict.fromkeys(r.task for r in rows):
        mine = [r for r in rows if r.task == task]
        columns: tuple[list[Paired | None], ...] = (
            [r.paired for r in mine],
            [r.equally for r in mine],
            [r.random for r in mine],
        )
        lines.append(f"{task:<18}{len(mine):>5}  " + "".join(f"{beats(c):<23}" for c in columns))
    return [*lines, f"(mean change, searches that beat it with p < {SIGNIFICANT:g})"]


def beats(every: list[Paired | None]) -> str:
    """Return the mean change, and how many are better."""
    known = [p for p in every if p is not None]
    if not known:
        return "-"
    better = sum(p.change < 0 and p.p < SIGNIFICANT for p in known)
    return f"{mean(p.change for p in known):+.1%}, {better} of {len(known)}"


@click.command()
@click.argument("tasks", nargs=-1, required=True)
@click.option("--seeds", default="0", help="Search seeds, separated by commas.")
@click.option("--storage", type=click.Path(path_type=Path), default=Path("wins"))
@click.option("--random/--no-random", "with_random", default=True, help="Also random search.")
@click.option("--time", "own_time", default=OWN_TIME, help="Time of a study of benchmarks/tasks.")
@click.option("--keep", type=click.Path(path_type=Path), help="Directory of tuned opponents.")
@click.option("--output", type=click.Path(path_type=Path), help="Also write the table here.")
def main(
    tasks: tuple[str, ...],
    seeds: str,
    storage: Path,
    with_random: bool,
    own_time: str,
    keep: Path | None,
    output: Path | None,
) -> None:
    """Search TASKS and print what the searches claim."""
    file = output.with_suffix(".jsonl") if output else None
    lines = file.read_text().splitlines() if file and file.exists() else []
    rows = [Row.from_json(line) for line in lines]
    known = {(r.task, r.seed) for r in rows}
    for task in tasks:
        for seed in map(int, seeds.split(",")):
            if (task, seed) in known:
                continue
            found = row(task, seed, storage, with_random, own_time, keep)
            if found is None:
                print(f"{task}, seed {seed}: no claim", flush=True)
                continue
            rows.append(found)
            print("\n".join(found.lines()), flush=True)
            if output and file:
                file.write_text("".join(f"{r.to_json()}\n" for r in rows))
                output.write_text("\n".join(table(rows)))
    print("\n".join(table(rows)))


def table(rows: Sequence[Row]) -> list[str]:
    """Return all rows as text, with a summary."""
    order = sorted(rows, key=lambda r: (r.task, r.seed))
    return [
        *header(),
        "",
        f"{'task':<18}{'seed':>5}  {'opponent':<26}{'learning rate tuned':<38}{'steps':>6}  "
        f"{'equally tuned':<38}random search at equal cost",
        *(line for r in order for line in r.lines()),
        *summary(order),
        "",
    ]


if __name__ == "__main__":
    main()
