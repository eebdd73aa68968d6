"""Whether the winners of searches on MNISTNET win on its variants, unchanged but for the rate.

    python benchmarks/transfer.py --storage wins --output FILE

Needs studies of benchmarks/wins.py: the winners `mnistnet-SEED`, and one study per variant, of
which the best opponents are taken; the others lost to these in the race. All recipes have their
learning rates tuned alike, and are compared on report seeds.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import click

import optsmith
from optsmith import Study
from report import header

VARIANTS = ("mnistnet-relu", "mnistnet-2layer", "mnistnet-big")


def ranks(winners: list[str], variant: str, storage: Path) -> tuple[list[str], list[int]]:
    """Return the lines of a variant, and the rank of each winner among the opponents."""
    study = Study.load(f"{variant}-0", storage)
    opponents = [row.recipe for row in study.final.baselines]
    table = optsmith.evaluate(
        variant, [*winners, *opponents], storage=storage, study=f"{variant}-transfer"
    )
    scores = {row.recipe: row.score for row in table.rows if row.score is not None}
    lines, found = [], []
    best = min(opponents, key=scores.__getitem__)
    for winner in winners:
        rank = 1 + sum(scores[opponent] < scores[winner] for opponent in opponents)
        change = scores[winner] / scores[best] - 1
        found.append(rank)
        lines.append(f"{variant:<18}{rank:>5}{change:>+9.1%}  {best:<26}{winner}")
    return lines, found


@click.command()
@click.option("--seeds", default="0", help="Search seeds of the winners, separated by commas.")
@click.option("--storage", type=click.Path(path_type=Path), default=Path("wins"))
@click.option("--output", type=click.Path(path_type=Path), help="Also write the table here.")
def main(seeds: str, storage: Path, output: Path | None) -> None:
    """Evaluate winners of MNISTNET on its variants."""
    studies = [Study.load(f"mnistnet-{seed}", storage) for seed in seeds.split(",")]
    winners = list(dict.fromkeys(str(study.best().rule) for study in studies))
    lines = [*header(), "", f"{'task':<18}{'rank':>5}{'change':>9}  {'best opponent':<26}winner"]
    every: list[int] = []
    for variant in VARIANTS:
        more, found = ranks(winners, variant, storage)
        lines += more
        every += found
    lines += ["", f"mean rank {mean(every):.2f} among the finalists of each task, winner included"]
    print("\n".join(lines))
    if output:
        output.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
