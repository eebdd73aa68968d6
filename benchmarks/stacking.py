"""Speed-up of stacked training, by kind and size of the model.

    python benchmarks/stacking.py [--repeats 5] [--output benchmarks/results/stacking.txt]

A step of a stack of 1 (the plain loop), 4, 8, 16 and 64 copies is timed on one core, with Adam's
rule and one batch for all copies. Sizes are interleaved, and the fastest repeat is used, because
other load only adds to a time. The table shows the speed-up per copy, the stack size that the
library chooses, and the speed-up at that size relative to the best size. The limits in
training/stacked/_choose.py were fitted to this table.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from optsmith import Rule, Run
from optsmith.task import ModuleTask
from optsmith.training import choose_stacking
from optsmith.training.stacked import Stack
from report import header
from tasks.gpt import GPT
from tasks.gpt import loss as loss_of_text

CPU = torch.device("cpu")
SIZES = (1, 4, 8, 16, 64)
MOST_BYTES = 3 << 30
ADAM = Rule.parse("Adam")
STEPS = 1000
"""Nominal length of a run; only a few steps are trained."""

SECONDS = 0.4
"""Seconds per repeat and size; at least two steps are run."""


class Residual(nn.Module):
    """A residual block with layer norm, which is stacked with vmap."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide, self.back = nn.Linear(64, width), nn.Linear(width, 64)
        self.norm, self.out = nn.LayerNorm(64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return self.out(self.norm(x + self.back(self.wide(x).relu())))  # type: ignore[no-any-return]


def perceptron(width: int) -> nn.Module:
    """Return a perceptron 784-WIDTH-10."""
    return nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 10))


def convolutions(channels: int, side: int) -> nn.Module:
    """Return a network of two convolutions with batch norm and pooling, and a linear layer."""
    layers: list[nn.Module] = []
    for before in (3, channels):
        convolution = nn.Conv2d(before, channels, 3, padding=1)
        layers += [convolution, nn.ReLU(), nn.BatchNorm2d(channels), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * (side // 4) ** 2, 10))


def task(make: Callable[[], nn.Module], shape: tuple[int, ...], batch_size: int) -> ModuleTask:
    """Return a task on random data."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(2000, *shape, generator=generator)
    labels = torch.randint(10, (2000,), generator=generator)
    return _task(make, (inputs, labels), cross_entropy, batch_size)


def text_task(width: int, layers: int, batch_size: int) -> ModuleTask:
    """Return the task of a GPT on texts of 32 random characters."""
    codes = torch.randint(90, (2000, 33), generator=torch.Generator().manual_seed(0))
    pair = codes[:, :-1].contiguous(), codes[:, 1:].contiguous()
    return _task(partial(GPT, 90, layers, width), pair, loss_of_text, batch_size)


def _task(
    make: Callable[[], nn.Module],
    data: tuple[Tensor, Tensor],
    loss: Callable[[Tensor, Tensor], Tensor],
    batch_size: int,
) -> ModuleTask:
    return ModuleTask(
        make,
        data,
        loss,
        objective="training loss",
        batch_size=batch_size,
        steps=STEPS,
    )


def models() -> dict[str, ModuleTask]:
    """Return the models by name."""
    found = {}
    for width in (20, 40, 80, 160, 320, 640, 1280):
        found[f"perceptron 784-{width}-10"] = task(partial(perceptron, width), (784,), 128)
    for width in (64, 256, 512, 1024, 2048, 4096):
        found[f"residual 64-{width}"] = task(partial(Residual, width), (64,), 128)
    for channels, side, batch in (
        (8, 8, 32),
        (8, 16, 32),
        (8, 16, 64),
        (16, 16, 64),
        (32, 32, 100),
    ):
        name = f"convolutions {channels}, {side} px, batch {batch}"
        found[name] = task(partial(convolutions, channels, side), (3, side, side), batch)
    for width, layers, batch in (
        (16, 2, 4),
        (32, 2, 2),
        (32, 2, 4),
        (32, 2, 16),
        (64, 2, 1),
        (64, 2, 2),
        (64, 2, 4),
        (64, 2, 16),
        (128, 4, 4),
    ):
        found[f"GPT {layers} x {width}, batch {batch}"] = text_task(width, layers, batch)
    return found


def stepper(of: ModuleTask, size: int) -> Callable[[], object]:
    """Return a function that trains `size` copies for one step."""
    runs = [Run(ADAM, 1e-3 * (1 + i / 64), 0, STEPS, device=CPU) for i in range(size)]
    if size == 1:
        training = of.start(runs[0])
        return lambda: next(training)
    stack = Stack(of, runs)
    steps = iter(range(1, STEPS))
    return lambda: stack.step(next(steps))


def seconds_per_copy(of: ModuleTask, sizes: list[int], repeats: int) -> dict[int, float]:
    """Return the seconds per step and copy, by stack size."""
    steps = {size: stepper(of, size) for size in sizes}
    for step in steps.values():
        step()  # warms up the caches
    best: dict[int, float] = {}
    for _ in range(repeats):
        for size, step in steps.items():
            begun, count = time.perf_counter(), 0
            while count < 2 or (time.perf_counter() - begun < SECONDS and count < STEPS // 20):
                step()
                count += 1
            taken = (time.perf_counter() - begun) / count / size
            best[size] = min(best.get(size, taken), taken)
    return best


def line(name: str, of: ModuleTask, repeats: int) -> str:
    """Return one row of the table."""
    chosen = choose_stacking(of, CPU)
    one = chosen.parameters + chosen.activations
    if not one:
        return f"{name:<34}  not stacked: {chosen.reason}"
    sizes = [n for n in SIZES if n * chosen.copy_bytes(2) <= MOST_BYTES]
    sizes = sorted({*sizes, chosen.copies})
    with torch.random.fork_rng():
        seconds = seconds_per_copy(of, sizes, repeats)
    gains = {n: seconds[1] / seconds[n] for n in sizes}
    cells = "".join(f"{gains[n]:>7.2f}" if n in gains else f"{'':>7}" for n in SIZES[1:])
    return (
        f"{name:<34}{one / 2**20:>7.2f}{1e3 * seconds[1]:>8.2f}{cells}{chosen.copies:>7}"
        f"{gains[chosen.copies] / max(gains.values()):>8.2f}"
    )


@click.command()
@click.option("--repeats", default=5, show_default=True)
@click.option("--only", default="", help="Only models whose name contains this.")
@click.option("--output", type=click.Path(path_type=Path), help="Also write the table here.")
def main(repeats: int, only: str, output: Path | None) -> None:
    """Print the speed-up of stacked training."""
    torch.set_num_threads(1)
    lines = [
        *header(),
        f"speed-up per copy, fastest of {repeats}; MiB: parameters and activations per copy",
        "",
        f"{'model':<34}{'MiB':>7}{'ms':>8}{''.join(f'{n:>7}' for n in SIZES[1:])}{'rule':>7}"
        f"{'/ best':>8}",
    ]
    click.echo("\n".join(lines))
    for name, of in models().items():
        if only not in name:
            continue
        lines.append(line(name, of, repeats))
        click.echo(lines[-1])
    if output:
        output.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
