"""The paper's MNISTNET table: baselines with and without schedules and rules on four networks.

    python benchmarks/mnistnet.py [RULE...] [--tune-steps 1000] [--output FILE]

Sum of the training loss over 1000 steps on new seeds, and accuracy on the held-out half of the
training images; mean ± standard deviation over 4 seeds. The learning rate is selected from the
paper's grid on runs of 100 steps (or --tune-steps), with a separate seed. The paper's values are
shown for comparison.
"""

from __future__ import annotations

from pathlib import Path

import click

from optsmith import evaluate
from optsmith.evaluation import Evaluation, mean_and_spread
from optsmith.optim import classic
from optsmith.task import find_task
from report import header

TASKS = ("mnistnet", "mnistnet-2layer", "mnistnet-big", "mnistnet-relu")
ZOO = ("mnist1", "mnist2", "mnist3")

PAPER = {
    "torch:sgd": ("364.96 / 93.09", "638.23 / 92.27", "334.72 / 93.88", "317.33 / 93.56"),
    "torch:momentum": ("276.26 / 93.07", "358.61 / 93.05", "207.54 / 95.29", "265.15 / 94.03"),
    "torch:nesterov": ("248.96 / 93.53", "317.86 / 93.32", "192.03 / 95.35", "283.50 / 92.95"),
    "torch:adam": ("327.15 / 91.54", "403.07 / 90.69", "219.25 / 94.29", "273.02 / 92.56"),
    "torch:rmsprop": ("269.48 / 93.72", "336.99 / 93.44", "230.69 / 95.01", "280.28 / 93.61"),
    "the paper's rule": ("237.76 / 93.86", "291.90 / 93.75", "186.17 / 95.42", "238.19 / 94.29"),
}


def cell(evaluation: Evaluation) -> str:
    """Return the sum of the loss and the accuracy, in the format of the paper."""
    if evaluation.score is None:
        return evaluation.status.value
    mean, spread = mean_and_spread(evaluation.metrics["test accuracy"])
    edge = "*" if evaluation.at_edge else ""
    return (
        f"{evaluation.score * evaluation.steps:7.2f}±{evaluation.spread * evaluation.steps:<5.2f}"
        f" {mean * 100:.2f}±{spread * 100:<4.2f} {evaluation.lr:.3g}{edge}"
    )


@click.command()
@click.argument("rules", nargs=-1)
@click.option(
    "--tune-steps", type=int, help="Steps of tuning runs; by default 100, as in the paper."
)
@click.option("--lr-search", default="grid", show_default=True)
@click.option("--workers", default=2, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write the table here.")
def main(
    rules: tuple[str, ...],
    tune_steps: int | None,
    lr_search: str,
    workers: int,
    output: Path | None,
) -> None:
    """Print the table."""
    recipes = [*classic, *ZOO, *rules]
    cells: dict[str, list[str]] = {}
    for name in TASKS:
        task = find_task(name)
        protocol = task.preset("paper").protocol.replace(tune_steps=tune_steps, lr_search=lr_search)
        for row in evaluate(task, recipes, protocol=protocol, workers=workers).rows:
            cells.setdefault(row.recipe, []).append(cell(row))
    width = max(map(len, cells))
    order = [str(recipe) for recipe in dict.fromkeys(cells)]
    lines = [
        *header(),
        "each     sum of training loss, test accuracy %, learning rate (* at edge of the grid);",
        f"         4 seeds; tuned on runs of {tune_steps or 100} steps ({lr_search})",
        "",
        f"{'':<{width}}  " + "  ".join(f"{name:<30}" for name in TASKS),
        *(f"{n:<{width}}  " + "  ".join(f"{c:<30}" for c in cells[n]) for n in order),
        "",
        "values of the paper (loss / accuracy)",
        *(f"{n:<{width}}  " + "  ".join(f"{c:<30}" for c in row) for n, row in PAPER.items()),
        "",
    ]
    click.echo("\n".join(lines))
    if output:
        output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
