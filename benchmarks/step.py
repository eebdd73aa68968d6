"""How long an optimizer step takes, beside torch.optim.Adam and the bound of memory bandwidth.

    python benchmarks/step.py [--output FILE] [--zoo] [--repeats N] [--threads N]

Every row of a table is measured in the same run: the repeats of all optimizers are interleaved, so
that a slow moment of the machine hits them alike, and medians are taken.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import click
import torch
from torch import Tensor

from optsmith import Program, RuleOptimizer, zoo
from report import header

SLOW = {"pow", "log", "drop"}

TOGETHER = 6
"""Rules measured together, each time beside torch's: all at once would not fit in memory."""


def sizes_25m() -> list[int]:
    """Sizes as in a residual network: 53 weights, 107 scales and shifts; 25 million in all."""
    rng = random.Random(0)
    weights = [rng.choice([36864, 65536, 147456, 262144, 524288, 589824]) for _ in range(53)]
    factor = 25_000_000 / sum(weights)
    return [int(w * factor) for w in weights] + [rng.choice([64, 128, 256]) for _ in range(107)]


MODELS = {
    "15 910 in 4": [15680, 20, 200, 10],
    "5 M in 20": [250_000] * 20,
    "25 M in 160": sizes_25m(),
}


def parameters(sizes: list[int]) -> list[Tensor]:
    """Return parameters with gradients."""
    params = [torch.randn(n, requires_grad=True) for n in sizes]
    for p in params:
        p.grad = torch.randn_like(p) * 0.01
    return params


def bandwidth() -> float:
    """Return bytes a second of the best pass over large arrays: add with two reads, one write."""
    x, y, z = (torch.ones(16_000_000) for _ in range(3))
    times = []
    for _ in range(12):
        start = time.perf_counter()
        torch.add(x, y, out=z)
        times.append(time.perf_counter() - start)
    return 3 * x.numel() * 4 / min(times)


@cache
def best_bandwidth() -> float:
    """Return the best of several measurements, once for all tables: it bounds, so noise is low."""
    rates = []
    for _ in range(5):
        rates.append(bandwidth())
        time.sleep(1.0)
    return max(rates)


def measure(steps: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Return milliseconds of each step, interleaved."""
    inner = {}
    for name, step in steps.items():
        step()
        start = time.perf_counter()
        step()
        inner[name] = max(1, int(0.02 / (time.perf_counter() - start)))
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(inner[name]):
                step()
            times[name].append((time.perf_counter() - start) / inner[name] * 1e3)
    return times


def make(sizes: list[int], rules: list[str]) -> dict[str, Callable[[], object]]:
    """Return a step function for each optimizer."""
    steps: dict[str, Callable[[], object]] = {}
    for label, options in {
        "torch Adam": {},
        "torch Adam foreach": {"foreach": True},
        "torch Adam fused": {"fused": True},
    }.items():
        steps[label] = torch.optim.Adam(parameters(sizes), lr=1e-4, **options).step
    for name in rules:
        for way in ("eager", "compiled"):
            optimizer = RuleOptimizer(
                parameters(sizes),
                zoo[name].rule,
                lr=1e-4,
                total_steps=10**6,
                compile=way != "eager",
            )
            steps[f"{name} {way}"] = optimizer.step
    return steps


def traffic(name: str) -> int:
    """Return the bytes a parameter costs at least: gradient read, parameter and state both ways."""
    return 4 * (1 + 2 + 2 * len(Program(zoo[name].rule).slots))


def is_slow(name: str) -> bool:
    """Return whether arithmetic, not memory, decides: powers, logarithms and random masks."""
    return bool(SLOW & {operator.name for operator in zoo[name].rule.operators})


def slowest(repeats: int) -> str:
    """Return the zoo rule with the longest eager step on 1 M parameters."""
    times = {}
    for name, entry in zoo.items():
        step = RuleOptimizer(parameters([1_000_000]), entry.rule, lr=1e-4, total_steps=10**6).step
        times[name] = statistics.median(measure({name: step}, max(3, repeats // 2))[name])
    return max(times, key=times.__getitem__)


def table(label: str, sizes: list[int], rules: list[str], repeats: int) -> list[str]:
    """Return the rows of one model."""
    lines = [
        f"{label} tensors",
        f"  {'optimizer':<24}{'ms':>9}{'least':>9}{'most':>9}"
        f"{'/foreach':>10}{'/fused':>9}{'/bound':>9}{'state B':>9}",
    ]
    for start in range(0, len(rules), TOGETHER):
        rows = _rows(sizes, rules[start : start + TOGETHER], repeats)
        lines += rows if start == 0 else [row for row in rows if "torch" not in row]
        torch._dynamo.reset()
    return lines


def _rows(sizes: list[int], rules: list[str], repeats: int) -> list[str]:
    """Return the rows of a few rules, beside torch's measured with them."""
    times = measure(make(sizes, rules), repeats)
    median = {name: statistics.median(t) for name, t in times.items()}
    foreach, fused = median["torch Adam foreach"], median["torch Adam fused"]
    rows = []
    for name, value in median.items():
        rule = "adam" if name.startswith("torch") else name.split()[0]
        bound = traffic(rule) * sum(sizes) / best_bandwidth() * 1e3
        rows.append(
            f"  {name:<24}{value:>9.3f}{min(times[name]):>9.3f}{max(times[name]):>9.3f}"
            f"{value / foreach:>10.2f}{value / fused:>9.2f}{value / bound:>9.2f}"
            f"{traffic(rule) // 2 - 6:>9}" + (" *" if is_slow(rule) and "torch" not in name else "")
        )
    return rows


@click.command()
@click.option("--output", type=click.Path(path_type=Path), help="Also write the tables here.")
@click.option("--zoo", "whole_zoo", is_flag=True, help="Every zoo rule on the larger two.")
@click.option("--repeats", default=9, show_default=True, help="Measurements; medians are shown.")
@click.option("--threads", default=torch.get_num_threads(), show_default=True)
def main(output: Path | None, whole_zoo: bool, repeats: int, threads: int) -> None:
    """Print milliseconds per step, and their ratios to torch and to the bound."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    slow = slowest(repeats)
    rules = list(dict.fromkeys(["adam", "products1", "mnist1", slow]))
    lines = [
        *header(),
        f"threads  {threads}; medians of {repeats} interleaved repeats; slowest eager rule: {slow}",
        f"bound    bytes that a step must move / {best_bandwidth() / 1e9:.1f} GB/s, the best"
        " measured; on 15 910",
        "         parameters all is in the cache and the bound says little",
        "*        has pow, log or drop: arithmetic decides, not memory",
        "",
    ]
    for line in lines:
        click.echo(line)
    for label, sizes in MODELS.items():
        chosen = rules
        if whole_zoo and label != "15 910 in 4":
            chosen = list(dict.fromkeys([*rules, *zoo]))
        rows = [*table(label, sizes, chosen, repeats), ""]
        lines += rows
        click.echo("\n".join(rows))
    if output:
        output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
