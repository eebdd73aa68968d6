"""Success rates of PGD, APGD, published rules and given rules on several robust networks.

    python benchmarks/attack.py [RULE...] --checkpoints DIR [--images 10000] [--output FILE]

Each network is attacked with the radius of its task. The success rate is the share of all CIFAR-10
test images that are misclassified at any step, and at the last step. Learning rates of PGD and of
rules are selected per network from the paper's grid, by the success rate at the last step on
training images with the same number of steps. Each row is written to the output file when it is
finished, and a run with the same settings resumes from that file. Put `--` before rules that start
with a minus.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import click
import torch
from torch import Tensor, nn

from optsmith import data
from optsmith._files import write_atomically
from optsmith.adversarial import apgd, attack, load_checkpoint
from optsmith.task._attack import LRS
from optsmith.task._targets import TARGETS
from report import header

NETWORKS = {target.architecture: target for target in TARGETS}
METHODS = ("pgd", "apgd", "attack1", "attack2", "attack3")
Pair = tuple[Tensor, Tensor]
Row = dict[str, object]


def pairs(images: object, labels: object) -> Pair:
    """Return images in [0, 1] and labels."""
    return torch.tensor(images).float() / 255, torch.tensor(labels).long()


def measure(model: nn.Module, method: str, eps: float, steps: int, tune: Pair, test: Pair) -> Row:
    """Return one row: the result of a method on a network."""
    start = time.perf_counter()
    lr = None
    if method == "apgd":
        result = apgd(model, *test, eps, steps)
    else:
        rule = "sign(g)" if method == "pgd" else method
        found = {lr: attack(model, *tune, rule, eps, steps, lr=lr, random_start=True) for lr in LRS}
        # Ties are resolved as in a search: the smallest learning rate.
        lr = max(LRS, key=lambda lr: (found[lr].success_rate_at_end, -lr))
        result = attack(model, *test, rule, eps, steps, lr=lr, random_start=True, seed=1)
    return {
        "lr": lr,
        "success": result.success_rate,
        "at_end": result.success_rate_at_end,
        "loss": float(result.losses.amax(0).double().mean()),
        "seconds": round(time.perf_counter() - start, 1),
    }


def known(output: Path | None) -> Iterator[Row]:
    """Yield the rows written by earlier runs."""
    if output and output.exists():
        for line in output.read_text().splitlines():
            if line.startswith("{"):
                yield json.loads(line)


def write(output: Path | None, lines: list[str], rows: list[Row]) -> None:
    """Write the table, if any, and all rows, including those with other settings."""
    if output:
        write_atomically(output, "\n".join([*lines, *map(json.dumps, rows), ""]))


def table(rows: list[Row], methods: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of the table, one per network and radius."""
    width = max(18, *map(len, methods)) + 1
    yield f"{'':<18} clean  " + "".join(f"{name:<{width}}" for name in methods)
    for network, radius in dict.fromkeys((row["network"], row["radius"]) for row in rows):
        cells = {r["method"]: r for r in rows if (r["network"], r["radius"]) == (network, radius)}
        line = f"{f'{network} {radius}/255':<18} {next(iter(cells.values()))['clean']:5.2%} "
        for name in methods:
            row = cells.get(name)
            text = "" if row is None else f"{100 * row['success']:.2f} {100 * row['at_end']:.2f}"
            if row is not None and row["lr"] is not None:
                text += f" {row['lr']:g}"
            line += f"{text:<{width}}"
        yield line.rstrip()


@click.command()
@click.argument("rules", nargs=-1)
@click.option("--images", default=10_000, show_default=True, help="Test images.")
@click.option("--tune-images", default=1000, show_default=True, help="Training images for tuning.")
@click.option("--steps", default=100, show_default=True)
@click.option("--network", "networks", multiple=True, type=click.Choice(list(NETWORKS)))
@click.option("--radius", "radii", multiple=True, type=int, help="Radius in units of 1/255.")
@click.option("--method", "methods", multiple=True, help="Methods to run; default: all.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Directory with CIFAR-10.")
@click.option("--checkpoints", type=click.Path(path_type=Path), required=True)
@click.option("--output", type=click.Path(path_type=Path), help="Result file, also to resume from.")
def main(
    rules: tuple[str, ...],
    images: int,
    tune_images: int,
    steps: int,
    networks: tuple[str, ...],
    radii: tuple[int, ...],
    methods: tuple[str, ...],
    data_dir: Path | None,
    checkpoints: Path,
    output: Path | None,
) -> None:
    """Print the table."""
    cifar = data.load("cifar10", data_dir)
    test = pairs(cifar.test_images[:images], cifar.test_labels[:images])
    tune = pairs(cifar.train_images[-tune_images:], cifar.train_labels[-tune_images:])
    settings: Row = {"images": images, "tune_images": tune_images, "steps": steps}
    chosen = (*(methods or METHODS), *rules)
    every = list(known(output))
    rows = [row for row in every if settings.items() <= row.items()]
    done = {(row["network"], row["radius"], row["method"]) for row in rows}
    there = [name for name, target in NETWORKS.items() if (checkpoints / target.file).is_file()]
    for network in networks or there:
        target = NETWORKS[network]
        model = load_checkpoint(checkpoints / target.file, network)
        with torch.no_grad():
            clean = float((model(test[0]).argmax(1) == test[1]).double().mean())
        for radius in radii or (target.radius,):
            for method in chosen:
                if (network, radius, method) in done:
                    continue
                row: Row = {"network": network, "radius": radius, "method": method, "clean": clean}
                row |= settings | measure(model, method, radius / 255, steps, tune, test)
                rows.append(row)
                every.append(row)
                click.echo(json.dumps(row), err=True)
                write(output, [], every)
    lines = [
        *header(),
        f"each     success at any step, at the last step (%), learning rate; {steps} steps,",
        f"         {images} test images; learning rates selected on {tune_images} training images",
        "",
        *table(rows, tuple(dict.fromkeys(str(row["method"]) for row in rows))),
        "",
    ]
    click.echo("\n".join(lines))
    write(output, lines, every)


if __name__ == "__main__":
    main()
