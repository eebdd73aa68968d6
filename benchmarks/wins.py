"""Whether searches beat tuned optimizers: the claims of several searches in one table.

    python benchmarks/wins.py mnistnet digits --seeds 0,1 --storage wins --output FILE

Each line is a study, which is resumed if it exists: the best rule against the best opponent of the
set `modern` with its learning rate tuned, against the same opponent equally tuned (all its
constants, with as many training steps as the search took), and against the best rule of random
search with as many training steps. All numbers are on report seeds, paired by seed. The tasks
`gpt`, `cnn` and `regression` are those of benchmarks/tasks, with 30 minutes for each study,
of which the equally tuned row takes about a third.
"""

from __future__ import annotations

import math
from pathlib import Path

import click

import optsmith
from optsmith import Study
from optsmith.evaluation import Paired, compare_evaluations
from report import header

OWN = ("gpt", "cnn", "regression")
"""Tasks of benchmarks/tasks."""

OWN_TIME = "30m"
"""Time of a study on one of them."""

RUNS_PER_RANDOM_RULE = 10.75 + 4
"""Runs that tune and score a random rule, in units of its length: a tenth of a full run."""


def change(paired: Paired | None) -> str:
    """Return a relative change with its interval and p-value."""
    if paired is None:
        return "-"
    p = "" if math.isnan(paired.p) else f", p {paired.p:.2g}"
    return f"{paired.change:+.1%} ({paired.low:+.1%} to {paired.high:+.1%}{p})"


def steps_of(study: Study) -> int:
    """Return the training steps of a study's search."""
    return sum(e.trained for e in study.evaluations)


def row(task: str, seed: int, storage: Path, with_random: bool) -> list[str]:
    """Return the lines of one search."""
    is_own = task in OWN
    problem = f"{Path(__file__).parent / 'tasks' / task}.py:task" if is_own else task
    study = optsmith.search(
        problem, seed=seed, baselines="modern", equally_tuned=True, storage=storage,
        study=f"{task}-{seed}", max_time=OWN_TIME if is_own else None, progress=False,
    )  # fmt: skip
    claim = study.claim
    if claim is None:
        return [f"{task:<18}{seed:>5}  no claim"]
    against_random = None
    if with_random:
        full = study.stored_settings.search.protocol.final_steps
        budget = round(steps_of(study) / (RUNS_PER_RANDOM_RULE * full / 10))
        other = optsmith.search(
            problem, space="paper", baselines="modern", algorithm="random", seed=seed,
            budget=budget, refine=False, storage=storage, study=f"{task}-{seed}-random",
            progress=False,
        )  # fmt: skip
        mine, its = study.best().held_out, other.best().held_out
        if mine is not None and its is not None:
            against_random = compare_evaluations(mine, its, study.objective)
    share = "" if claim.speed_up is None else f"{claim.speed_up.share:.0%}"
    return [
        f"{task:<18}{seed:>5}  {claim.opponent:<26}{change(claim.paired):<38}{share:>6}  "
        f"{change(claim.equally_tuned):<38}{change(against_random)}",
        f"{'':<25}{study.best().simplified}, lr {claim.lr:.4g}; "
        f"{sum(claim.trained.values()):,} steps, {study.summary['seconds']:.0f} s",
    ]


@click.command()
@click.argument("tasks", nargs=-1, required=True)
@click.option("--seeds", default="0", help="Search seeds, separated by commas.")
@click.option("--storage", type=click.Path(path_type=Path), default=Path("wins"))
@click.option("--random/--no-random", "with_random", default=True, help="Also random search.")
@click.option("--output", type=click.Path(path_type=Path), help="Also write the table here.")
def main(
    tasks: tuple[str, ...], seeds: str, storage: Path, with_random: bool, output: Path | None
) -> None:
    """Search TASKS and print what the searches claim."""
    lines = [
        *header(),
        "",
        f"{'task':<18}{'seed':>5}  {'opponent':<26}{'learning rate tuned':<38}{'steps':>6}  "
        f"{'equally tuned':<38}random search at equal cost",
    ]
    print("\n".join(lines))
    for task in tasks:
        for seed in map(int, seeds.split(",")):
            lines += row(task, seed, storage, with_random)
            print("\n".join(lines[-2:]), flush=True)
            if output:
                output.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
