"""Time of an optimizer step, compared with torch.optim.Adam and the memory-bandwidth bound.

    python benchmarks/step.py [--output FILE] [--zoo | --modern] [--repeats N] [--threads N]

The repeats of all optimizers are interleaved, each with a measurement of the memory bandwidth, so
that other load on the machine affects them equally. Ratios are medians of the ratios per repeat.
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

import step_modern
from optsmith import Program, RuleOptimizer, zoo
from report import header

SLOW = {"pow", "log", "drop"}

TOGETHER = 6
"""Rules measured together with torch's Adam; all rules at once would not fit in memory."""


def sizes_25m() -> list[int]:
    """Return sizes as in a residual network: 53 weights, 107 scales and shifts; 25 M in total."""
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


@cache
def _arrays() -> tuple[Tensor, Tensor]:
    return torch.ones(16_000_000), torch.ones(16_000_000)


def byte_time() -> float:
    """Return milliseconds per byte of a pass that reads two arrays and writes one; best of five."""
    x, y = _arrays()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        x.add_(y)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3 / (3 * x.numel() * 4)


def measure(steps: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Return milliseconds per step and per byte, for each repeat."""
    inner = {}
    for name, step in steps.items():
        step()
        start = time.perf_counter()
        step()
        inner[name] = max(1, int(0.02 / (time.perf_counter() - start)))
    times: dict[str, list[float]] = {name: [] for name in [*steps, "byte"]}
    for _ in range(repeats):
        times["byte"].append(byte_time())
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(inner[name]):
                step()
            times[name].append((time.perf_counter() - start) / inner[name] * 1e3)
    return times


def make(sizes: list[int], rules: list[str]) -> dict[str, Callable[[], object]]:
    """Return the step functions of all optimizers by name."""
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
    """Return the least bytes moved per parameter: gradient read, parameter and state both ways."""
    return 4 * (1 + 2 + 2 * len(Program(zoo[name].rule).slots))


def is_slow(name: str) -> bool:
    """Return whether a rule is compute-bound: it has powers, logarithms or random masks."""
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
        f"  {'optimizer':<24}{'ms':>9}{'min':>9}{'max':>9}"
        f"{'/foreach':>10}{'/fused':>9}{'/bound':>9}{'state B':>9}",
    ]
    for start in range(0, len(rules), TOGETHER):
        rows = _rows(sizes, rules[start : start + TOGETHER], repeats)
        lines += rows if start == 0 else [row for row in rows if "torch" not in row]
        torch._dynamo.reset()
    return lines


def _rows(sizes: list[int], rules: list[str], repeats: int) -> list[str]:
    """Return the rows of some rules and of torch's Adam, measured together."""
    times = measure(make(sizes, rules), repeats)
    byte = times.pop("byte")
    rows = []
    for name, own in times.items():
        rule = "adam" if name.startswith("torch") else name.split()[0]
        bound = [traffic(rule) * sum(sizes) * b for b in byte]
        ratios = [ratio(own, times["torch Adam foreach"]), ratio(own, times["torch Adam fused"])]
        rows.append(
            f"  {name:<24}{statistics.median(own):>9.3f}{min(own):>9.3f}{max(own):>9.3f}"
            f"{ratios[0]:>10.2f}{ratios[1]:>9.2f}{ratio(own, bound):>9.2f}"
            f"{traffic(rule) // 2 - 6:>9}" + (" *" if is_slow(rule) and "torch" not in name else "")
        )
    rates = [1e-6 / b for b in byte]
    low, middle, high = min(rates), statistics.median(rates), max(rates)
    return [*rows, f"  {f'memory {middle:.1f} GB/s, {low:.1f} to {high:.1f}':<24}"]


def ratio(times: list[float], reference: list[float]) -> float:
    """Return the median of the ratios per repeat."""
    return statistics.median(a / b for a, b in zip(times, reference, strict=True))


@click.command()
@click.option("--output", type=click.Path(path_type=Path), help="Also write the tables here.")
@click.option("--zoo", "whole_zoo", is_flag=True, help="All zoo rules, on the two larger models.")
@click.option("--modern", is_flag=True, help="Only modern rules on GPTs, and stacks of them.")
@click.option("--repeats", default=9, show_default=True, help="Repeats; medians are shown.")
@click.option("--threads", default=torch.get_num_threads(), show_default=True)
def main(output: Path | None, whole_zoo: bool, modern: bool, repeats: int, threads: int) -> None:
    """Print milliseconds per step, and ratios to torch and to the bound."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if modern:
        lines = [*header(), f"threads  {threads}; {repeats} interleaved repeats", ""]
        lines += [*step_modern.table(byte_time, repeats), "", *step_modern.stack_table(repeats), ""]
        click.echo("\n".join(lines))
        if output:
            output.write_text("\n".join(lines))
        return
    slow = slowest(repeats)
    rules = list(dict.fromkeys(["adam", "products1", "mnist1", slow]))
    lines = [
        *header(),
        f"threads  {threads}; medians of {repeats} repeats, of times and of ratios;"
        f" slowest eager rule: {slow}",
        "bound    least memory traffic of a step / memory bandwidth in the same repeat; for 15 910",
        "         parameters all data is in the cache, and the bound is not meaningful",
        "*        has pow, log or drop: compute-bound",
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
