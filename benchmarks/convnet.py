"""Training throughput of the ConvNet task in images per second, for several torch configurations.

    python benchmarks/convnet.py [--repeats N] [--steps N] [--no-compile] [--output FILE]

SGD on random images in batches of 100. The repeats of all configurations are interleaved, so that
other load on the machine affects them equally; the median and the best repeat are shown. Then the
task's own loop in one process and in two, and a profile of it. "Memory kept" means that glibc does
not return freed memory to the system, which would have to clear it again in every step.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.profiler import profile

from optsmith import Run
from optsmith.optim import parse_recipe
from optsmith.task._convnet import BATCH, LAYOUT, convnet, normalise, task_of
from optsmith.training import train_once
from report import header

IMAGES = 2000

KEEP = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str((1 << 31) - 1)}
"""Environment variables that make glibc keep freed memory."""

GROUPS = {
    "convolutions": ("aten::mkldnn_convolution", "aten::convolution_backward"),
    "batch norm": ("aten::native_batch_norm", "aten::native_batch_norm_backward"),
    "ReLU": ("aten::clamp_min_", "aten::threshold_backward"),
    "pooling": ("aten::max_pool2d_with_indices", "aten::max_pool2d_with_indices_backward"),
    "linear layers": ("aten::addmm", "aten::mm"),
}


@dataclass(frozen=True)
class Way:
    """A configuration of torch.

    Attributes:
        name: Name in the table.
        layout: Memory format of images and weights.
        compiled: Whether forward and backward pass are compiled with torch.compile.
        onednn: Whether convolutions use oneDNN.
        threads: Number of torch threads.
    """

    name: str
    layout: torch.memory_format = LAYOUT
    compiled: bool = False
    onednn: bool = True
    threads: int = 1

    @contextmanager
    def settings(self) -> Iterator[None]:
        """Apply the global settings of torch, and restore them on exit."""
        threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
        torch.set_num_threads(self.threads)
        torch._C._set_mkldnn_enabled(self.onednn)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch._C._set_mkldnn_enabled(onednn)


WAYS = (
    Way("channels-last (the task's)"),
    Way("contiguous", torch.contiguous_format),
    Way("contiguous, without oneDNN", torch.contiguous_format, onednn=False),
    Way("channels-last, compiled", compiled=True),
    Way("contiguous, compiled", torch.contiguous_format, compiled=True),
    Way("channels-last, two threads", threads=2),
)


def photographs(count: int = IMAGES) -> tuple[Tensor, Tensor]:
    """Return random images and labels."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 3, 32, 32), generator=generator)
    return images.to(torch.uint8), torch.randint(0, 10, (count,), generator=generator)


def step_of(way: Way, images: Tensor, labels: Tensor) -> Callable[[], None]:
    """Return a function that runs one training step."""
    torch.manual_seed(0)
    model: nn.Module = convnet().to(memory_format=way.layout)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loss_of(inputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(model(inputs), targets)

    loss = torch.compile(loss_of, dynamic=False) if way.compiled else loss_of

    def step() -> None:
        rows = torch.randint(0, len(images), (BATCH,))
        inputs = normalise(images.index_select(0, rows)).contiguous(memory_format=way.layout)
        optimizer.zero_grad()
        loss(inputs, labels[rows]).backward()
        optimizer.step()

    return step


def measure(ways: tuple[Way, ...], repeats: int, steps: int) -> Iterator[str]:
    """Yield the table of the configurations."""
    data = photographs()
    made, first = {}, {}
    for way in ways:
        with way.settings():
            start = time.perf_counter()
            made[way] = step_of(way, *data)
            made[way]()
            first[way] = time.perf_counter() - start
    times: dict[Way, list[float]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way in ways:
            with way.settings():
                start = time.perf_counter()
                for _ in range(steps):
                    made[way]()
                times[way].append((time.perf_counter() - start) / steps)
    yield f"{'images per second':42} {'median':>7} {'best':>7} {'first step':>11}"
    for way in ways:
        median, best = statistics.median(times[way]), min(times[way])
        yield f"{way.name:42} {BATCH / median:7.0f} {BATCH / best:7.0f} {first[way]:9.1f} s"


def rate(steps: int) -> float:
    """Return the images per second of the task's own loop on one thread."""
    torch.set_num_threads(1)
    task = task_of(photographs(), photographs(BATCH), validation=BATCH)
    run = Run(parse_recipe("m1"), 1e-3, seed=0, steps=steps)
    train_once(task, Run(run.recipe, run.lr, run.seed, 2))
    return BATCH * steps / train_once(task, run).seconds


def loops(repeats: int, steps: int) -> Iterator[str]:
    """Yield the throughput of the task's loop in one process, and in two."""
    for processes, kept in ((1, False), (1, True), (2, False), (2, True)):
        os.environ.update(KEEP if kept else {})
        try:
            with multiprocessing.get_context("spawn").Pool(processes) as pool:
                work = [steps] * processes
                rates = [sum(pool.map(rate, work, chunksize=1)) for _ in range(repeats)]
        finally:
            for name in KEEP:
                os.environ.pop(name, None)
        label = f"the task's loop, {processes} process{'es' * (processes > 1)}"
        label += ", memory kept" * kept
        yield f"{label:42} {statistics.median(rates):7.0f} {max(rates):7.0f}"


def shares(steps: int) -> Iterator[str]:
    """Yield the profile of the task's loop."""
    task = task_of(photographs(), photographs(BATCH), validation=BATCH)
    train_once(task, Run(parse_recipe("m1"), 1e-3, 0, 2))
    with profile() as profiler:
        train_once(task, Run(parse_recipe("m1"), 1e-3, 0, steps))
    events = profiler.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    groups = {name: group for group, names in GROUPS.items() for name in names}
    spent: Counter[str] = Counter()
    for event in events:
        spent[groups.get(event.key, "other")] += event.self_cpu_time_total
    yield f"share of the time, {steps} steps with the rule m1"
    for group, time_of in spent.most_common():
        yield f"  {group:32} {time_of / total:7.1%}"
    yield f"  {'outside convolutions':32} {1 - spent['convolutions'] / total:7.1%}"


@click.command()
@click.option("--repeats", default=7, show_default=True)
@click.option("--steps", default=10, show_default=True, help="Steps per repeat.")
@click.option("--compile/--no-compile", "compiled", default=True, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Also write the table here.")
def main(repeats: int, steps: int, compiled: bool, output: Path | None) -> None:
    """Measure and print the throughput."""
    torch.set_num_threads(1)
    ways = tuple(way for way in WAYS if compiled or not way.compiled)
    lines = []
    parts = (header(), [""], measure(ways, repeats, steps), loops(repeats, 2 * steps), [""])
    for part in (*parts, shares(2 * steps)):
        for line in part:
            print(line, flush=True)
            lines.append(line)
    if output:
        output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
