"""The plain loop: one run after the other, whatever the task."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from optsmith._errors import TaskError
from optsmith.evaluation._stopping import Stopping
from optsmith.optim import state_bytes
from optsmith.task import Run, Task

LOOK = 10
"""Steps between looks at the signal: on a GPU each look waits for the device."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What came of a run.

    Attributes:
        signal: (step, value) of every step that was measured.
        stopped: Why it ended before its time; empty when it did not.
        metrics: What the task measured at the end.
        seconds: Time its steps took, without what was measured at the end; the share of a run that
            was trained together with others.
        state_bytes: Bytes of optimizer state a parameter.
    """

    signal: Sequence[tuple[int, float]]
    stopped: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    state_bytes: float = math.nan


def train_once(task: Task, run: Run, stopping: Stopping | None = None) -> Trace:
    """Train once, with torch's generator seeded for the run and put back after it."""
    stopping = stopping or Stopping(task.objective)
    with seeded(run.seed, run.device):
        trace = _follow(task, run, stopping)
    return replace(trace, state_bytes=state_bytes(run.built[-1])) if run.built else trace


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's generator, as every run finds it, and put it back after."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _follow(task: Task, run: Run, stopping: Stopping) -> Trace:
    start = end = time.perf_counter()
    training = task.start(run)
    signal: list[tuple[int, float]] = []
    fresh: list[tuple[int, float | Tensor]] = []
    step = 0
    while True:
        try:
            value = next(training)
        except StopIteration as stop:
            signal += _read(fresh)
            if step != run.steps or not signal or signal[-1][0] != step:
                raise TaskError(
                    f"the task {task.name} gave {step} steps with the last signal at step"
                    f" {signal[-1][0] if signal else 'none'}; {run.steps} steps were asked for"
                ) from None
            why = stopping.why(signal, run.steps)
            return Trace(signal, why, stop.value or {}, end - start)
        step += 1
        end = time.perf_counter()
        if step > run.steps:
            training.close()
            raise TaskError(f"the task {task.name} goes on after {run.steps} steps")
        if value is not None:
            fresh.append((step, value))
        if step % LOOK == 0:
            signal += _read(fresh)
            fresh = []
            if stopped := stopping.why(signal, run.steps):
                training.close()
                return Trace(signal, stopped, seconds=end - start)


def _read(fresh: list[tuple[int, float | Tensor]]) -> list[tuple[int, float]]:
    """Return values as numbers, with one wait for all tensors."""
    tensors = [value for _, value in fresh if isinstance(value, Tensor)]
    numbers = iter(torch.stack(tensors).tolist() if tensors else ())
    return [
        (step, next(numbers) if isinstance(value, Tensor) else float(value))
        for step, value in fresh
    ]
