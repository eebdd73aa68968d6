"""The plain loop: one run after the other, whatever the task."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from optsmith._errors import TaskError
from optsmith.optim import state_bytes
from optsmith.task import Run, Task
from optsmith.training._stopping import BEHIND, Stopping

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
    turns = Turns(task, run, stopping or Stopping(task.objective))
    while turns.trace is None:
        turns.take()
    return turns.trace


def race(task: Task, runs: Sequence[Run], stopping: Stopping) -> list[Trace]:
    """Train runs in turns, so that learning rates that are behind can be given up.

    The runs are alike but for the learning rate. All their models are in memory at once.
    """
    every = [Turns(task, run, stopping) for run in runs]
    step, steps = 0, runs[0].steps
    while going := [turns for turns in every if turns.trace is None]:
        step += LOOK
        for turns in going:
            turns.take()
        if stopping.is_rung(step, step - LOOK, steps):
            left = [turns for turns in going if turns.trace is None]
            for i in stopping.behind([turns.signal for turns in left]):
                left[i].take(BEHIND)
    return [turns.trace for turns in every if turns.trace is not None]


class Turns:
    """A run that is trained from look to look, whatever happens in between.

    Args:
        task: What is trained.
        run: The run.
        stopping: What ends it early.
    """

    def __init__(self, task: Task, run: Run, stopping: Stopping) -> None:
        self.run = run
        self.signal: list[tuple[int, float]] = []
        self.trace: Trace | None = None
        self._following = _follow(task, run, stopping, self.signal)
        self._random: tuple[Tensor, Tensor | None] | None = None

    def take(self, stop: str = "") -> None:
        """Train until the next look, or end the run; at its end it has a trace."""
        with seeded(self.run.seed, self.run.device):
            if self._random is not None:  # go on with the random numbers where it was
                _set_random_state(self._random, self.run.device)
            try:
                self._following.send(stop if self._random is not None else None)
            except StopIteration as end:
                size = state_bytes(self.run.built[-1]) if self.run.built else math.nan
                self.trace = replace(end.value, state_bytes=size)
            self._random = _random_state(self.run.device)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's generator, as every run finds it, and put it back after."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _random_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    on_device = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    return torch.get_rng_state(), on_device


def _set_random_state(state: tuple[Tensor, Tensor | None], device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)


def _follow(
    task: Task, run: Run, stopping: Stopping, signal: list[tuple[int, float]]
) -> Generator[None, str | None, Trace]:
    """Train from look to look; what is sent in then, if anything, is why to stop."""
    seconds, start = 0.0, time.perf_counter()
    training = task.start(run)
    fresh: list[tuple[int, float | Tensor]] = []
    step = 0
    while True:
        try:
            value = next(training)
        except StopIteration as stop:
            seen = len(signal)
            signal += _read(fresh)
            if step != run.steps or not signal or signal[-1][0] != step:
                raise TaskError(
                    f"the task {task.name} gave {step} steps with the last signal at step"
                    f" {signal[-1][0] if signal else 'none'}; {run.steps} steps were asked for"
                ) from None
            why = stopping.why(signal, run.steps, seen)
            return Trace(signal, why, stop.value or {}, seconds)
        step += 1
        if step > run.steps:
            training.close()
            raise TaskError(f"the task {task.name} goes on after {run.steps} steps")
        if value is not None:
            fresh.append((step, value))
        if step % LOOK == 0 or step == run.steps:
            seconds += time.perf_counter() - start
        if step % LOOK == 0:
            seen = len(signal)
            signal += _read(fresh)
            fresh = []
            if stopped := stopping.why(signal, run.steps, seen) or (yield):
                training.close()
                return Trace(signal, stopped, seconds=seconds)
            start = time.perf_counter()


def _read(fresh: list[tuple[int, float | Tensor]]) -> list[tuple[int, float]]:
    """Return values as numbers, with one wait for all tensors."""
    tensors = [value for _, value in fresh if isinstance(value, Tensor)]
    numbers = iter(torch.stack(tensors).tolist() if tensors else ())
    return [
        (step, next(numbers) if isinstance(value, Tensor) else float(value))
        for step, value in fresh
    ]
