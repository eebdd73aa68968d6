"""Profile of an evaluation, and timings of square roots: the values in profile.md.

    python benchmarks/profile_evaluation.py [--rules 12] [--output FILE]

Random rules on MNISTNET with the paper's protocol, in groups of four, on one thread, measured with
torch's profiler. Square roots of as many numbers as a stack of ten copies has weights, with
`torch.sqrt` and with `rsqrt`, interleaved; medians.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import click
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from lr_search import draw
from optsmith.evaluation import evaluate_recipes
from optsmith.study import SIDE_BY_SIDE
from optsmith.task import find_task
from optsmith.training.stacked._row_programs import _square_root
from report import header

ROWS = 16


def shares(count: int) -> list[str]:
    """Return the operations with the largest self time."""
    task = find_task("mnistnet")
    stage = task.preset("paper").protocol.search_stage
    rules = draw(count, seed=5)
    evaluate_recipes(task, rules[:1], stage)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for i in range(0, count, SIDE_BY_SIDE):
            evaluate_recipes(task, rules[i : i + SIDE_BY_SIDE], stage)
    events = profiler.key_averages()
    total = sum(e.self_cpu_time_total for e in events)
    top = sorted(events, key=lambda e: -e.self_cpu_time_total)[:ROWS]
    return [
        "rules    " + "; ".join(map(str, rules)),
        "",
        f"{'operation':<36}{'share':>8}{'calls':>9}",
        *(f"{e.key[:35]:<36}{e.self_cpu_time_total / total:>8.1%}{e.count:>9}" for e in top),
    ]


def median(work: list[float]) -> float:
    """Return the median in microseconds."""
    return statistics.median(work) * 1e6


def roots() -> list[str]:
    """Return the time of square roots for several kinds of numbers."""
    positive = torch.rand(10, 15_680, generator=torch.Generator().manual_seed(0)) + 1e-3
    zeros, denormals = positive.clone(), positive.clone()
    zeros[:, ::3] = 0.0
    denormals[:, ::5] *= 1e-40
    out = torch.empty_like(positive)
    lines = [f"{'square roots of 156 800':<36}{'torch us':>10}{'ours us':>9}{'ratio':>8}"]
    kinds: dict[str, Tensor] = {
        "positive numbers": positive,
        "one third are 0": zeros,
        "one fifth are denormal": denormals,
    }
    for name, values in kinds.items():
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(60):
            for way, kept in zip((torch.sqrt, _square_root), times, strict=True):
                start = time.perf_counter()
                way(values, out=out)
                kept.append(time.perf_counter() - start)
        theirs, ours = map(median, times)
        lines.append(f"{name:<36}{theirs:>10.0f}{ours:>9.0f}{theirs / ours:>8.1f}")
    return lines


@click.command()
@click.option("--rules", "count", default=12, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write the result here.")
def main(count: int, output: Path | None) -> None:
    """Print the profile and the timings."""
    torch.set_num_threads(1)
    lines = [*header(), *shares(count), "", *roots(), ""]
    click.echo("\n".join(lines))
    if output:
        output.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
