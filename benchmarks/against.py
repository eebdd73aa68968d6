"""The winners of searches against named optimizers, at equal steps and at shorter horizons.

    python benchmarks/against.py gpt cnn --seeds 0 --storage wins --output FILE

Needs studies of benchmarks/wins.py. Winner and optimizers have their learning rates tuned alike at
full length, each optimizer with its best schedule on the seeds that tune it, and are compared on
report seeds. Then the winner is trained at shorter horizons, to which its decays are scaled: the
smallest whose loss is not worse than the optimizer's full run is the share of its steps.
"""

from __future__ import annotations

from pathlib import Path

import click

import optsmith
from optsmith import Protocol, Study
from optsmith.evaluation import Evaluation, compare_evaluations
from report import header
from wins import change, problem_of

OPTIMIZERS = ("torch:adamw+warmup-cosine", "torch:muon+cosine", "torch:muon+linear")

HORIZONS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

SEEDS = 8


def evaluated(study: Study, protocol: Protocol, recipes: list[str], name: str) -> list[Evaluation]:
    """Return the evaluations of recipes, which are stored beside the study."""
    table = optsmith.evaluate(
        problem_of(study.name.rpartition("-")[0]), recipes, protocol=protocol,
        storage=Path(study.location).parent, study=f"{study.name}-{name}",
    )  # fmt: skip
    rows = {row.recipe: row for row in table.rows}
    return [rows[recipe] for recipe in recipes]


def compare(study: Study) -> list[str]:
    """Return the lines of a study."""
    best = str(study.best().rule)
    usual = study.stored_settings.search.protocol
    full = usual.final_steps
    whole = usual.replace(final_seeds=SEEDS, tune_steps=full)
    rule, *others = evaluated(study, whole, [best, *OPTIMIZERS], "against")
    assert rule.lr is not None  # noqa: S101 - it was tuned
    shorter = {}
    for share in HORIZONS:
        steps = round(share * full)
        fixed = whole.replace(
            lrs=(rule.lr,), lr_search="grid", final_steps=steps, tune_steps=1, early_stop=False
        )
        (shorter[share],) = evaluated(study, fixed, [best], f"at-{share:g}")
    lines = []
    for other in others:
        paired = compare_evaluations(rule, other, study.objective)
        changes = {s: compare_evaluations(e, other, study.objective) for s, e in shorter.items()}
        enough = [share for share, c in changes.items() if c.change <= 0]
        share = f"{min(enough):.0%}" if enough else "100%"
        time = f"{rule.ms_per_step / other.ms_per_step:.2f}"
        lines.append(f"{study.name:<16}{other.recipe:<28}{change(paired):<38}{share:>6}{time:>8}")
    return lines


@click.command()
@click.argument("tasks", nargs=-1, required=True)
@click.option("--seeds", default="0", help="Search seeds, separated by commas.")
@click.option("--storage", type=click.Path(path_type=Path), default=Path("wins"))
@click.option("--output", type=click.Path(path_type=Path), help="Also write the table here.")
def main(tasks: tuple[str, ...], seeds: str, storage: Path, output: Path | None) -> None:
    """Compare the winners on TASKS."""
    lines = [
        *header(),
        "",
        f"{'study':<16}{'optimizer':<28}{'change':<38}{'steps':>6}{'time':>8}",
    ]
    for task in tasks:
        for seed in seeds.split(","):
            lines += compare(Study.load(f"{task}-{seed}", storage))
    lines += ["", "steps: share of the optimizer's steps; time: of a step, relative to its own"]
    print("\n".join(lines))
    if output:
        output.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
