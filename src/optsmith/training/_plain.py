"""Training of one run at a time, for any task."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import torch
from torch import Tensor

from optsmith._errors import TaskError
from optsmith.optim import state_bytes
from optsmith.task import (
    RandomState,
    ResumableTraining,
    Run,
    Task,
    Training,
    random_state,
    seeded,
    set_random_state,
)
from optsmith.training._stopping import Stopping

LOOK = 10
"""Steps between reads of the signal; each read synchronizes with the device."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The result of a run.

    Attributes:
        signal: (step, value) of every measured step.
        stopped: Why the run was stopped early; empty if it was not.
        metrics: Metrics measured at the end of the run.
        seconds: Training time without the final metrics; in a stack, the run's share of it.
        state_bytes: Bytes of optimizer state per parameter.
    """

    signal: Sequence[tuple[int, float]]
    stopped: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    state_bytes: float = math.nan


def train_once(task: Task, run: Run, stopping: Stopping | None = None) -> Trace:
    """Return the trace of a run, trained with seeded generators that are restored afterwards."""
    training = PausableRun(task, run, stopping or Stopping(task.objective))
    training.train()
    return training.result()


class PausableRun:
    """A training run that can be paused, and moved to disk while other runs are trained.

    torch's generators are seeded for the run, keep its state across pauses, and are restored after
    each call of `train`.

    Args:
        task: The task.
        run: The run.
        stopping: The early-stopping criteria.

    Attributes:
        run: The run.
        signal: (step, value) of every step measured so far.
        trace: The result; None until the run has ended.
    """

    def __init__(self, task: Task, run: Run, stopping: Stopping) -> None:
        self.run = run
        self.signal: list[tuple[int, float]] = []
        self.trace: Trace | None = None
        self._task, self._stopping = task, stopping
        self._step, self._seconds, self._state_bytes = 0, 0.0, math.nan
        self._training: Training | None = None
        self._random: RandomState | None = None
        self._file: IO[bytes] | None = None

    def train(self, until: int | None = None) -> None:
        """Train until a step, a multiple of `LOOK`, and pause; None trains to the end."""
        device = self.run.device
        with seeded(self.run.seed, device):
            training = self._training or self._start()
            if self._random is not None:
                set_random_state(self._random, device)
            self._advance(training, until)
            self._random = random_state(device)
        if self.run.built:
            self._state_bytes = state_bytes(self.run.built[-1])

    def result(self) -> Trace:
        """Return the result of a run that has ended."""
        if self.trace is None:
            raise TaskError(f"the run has not ended: it is at step {self._step}")
        return self.trace

    def end(self, why: str, metrics: Mapping[str, Any] | None = None) -> None:
        """End the run with a trace; `why` is the reason to stop it early, or empty."""
        if self.run.built:
            self._state_bytes = state_bytes(self.run.built[-1])
        self.trace = Trace(self.signal, why, metrics or {}, self._seconds, self._state_bytes)

    def memory(self) -> int:
        """Return the bytes of a paused run's parameters and optimizer state."""
        tensors = [p for o in self.run.built for group in o.param_groups for p in group["params"]]
        for optimizer in self.run.built:
            for state in optimizer.state.values():
                tensors += [value for value in state.values() if isinstance(value, Tensor)]
        return sum(int(tensor.nbytes) for tensor in tensors)

    def set_aside(self, file: IO[bytes]) -> None:
        """Free the memory of a paused run, which can still be continued with the same result.

        Args:
            file: File for the checkpoint, closed with the run. If the training does not support
                checkpoints, nothing is written and the run is repeated from the start.
        """
        if isinstance(self._training, ResumableTraining):
            torch.save(self._training.save(), file)
        self.close()
        self._file = file

    def close(self) -> None:
        """Free the memory and the file of a paused or ended run."""
        if self._training is not None:
            self._training.close()
        if self._file is not None:
            self._file.close()
        self._training = self._file = None
        self.run.built.clear()

    def _start(self) -> Training:
        """Start the run, or restore it after `set_aside`."""
        training = self._training = self._task.start(self.run)
        if self._file is None:
            return training
        if isinstance(training, ResumableTraining):
            self._file.seek(0)
            training.load(torch.load(self._file, map_location="cpu", weights_only=True))
        else:
            for _ in range(self._step):
                next(training)
        self._file.close()
        self._file = None
        return training

    def _advance(self, training: Training, until: int | None) -> None:
        """Train until a step or the end, and check the stopping criteria every `LOOK` steps."""
        fresh: list[tuple[int, float | Tensor]] = []
        start = time.perf_counter()
        while self._step != until:
            try:
                value = next(training)
            except StopIteration as stop:
                why = self._read(fresh)
                self._check_length()
                self.end(why, stop.value)
                return
            self._step += 1
            if self._step > self.run.steps:
                training.close()
                raise TaskError(
                    f"the task {self._task.name} yields more than {self.run.steps} steps"
                )
            if value is not None:
                fresh.append((self._step, value))
            if self._step % LOOK == 0 or self._step == self.run.steps:
                self._seconds += time.perf_counter() - start
            if self._step % LOOK == 0:
                if why := self._read(fresh):
                    training.close()
                    self.end(why)
                    return
                fresh = []
                start = time.perf_counter()

    def _read(self, fresh: Sequence[tuple[int, float | Tensor]]) -> str:
        """Append new values to the signal and return why to stop; empty to continue."""
        seen = len(self.signal)
        self.signal += _numbers(fresh)
        return self._stopping.why(self.signal, self.run.steps, seen)

    def _check_length(self) -> None:
        last = self.signal[-1][0] if self.signal else None
        if self._step != self.run.steps or last != self._step:
            raise TaskError(
                f"the task {self._task.name} must yield {self.run.steps} steps with a signal at the"
                f" last; it yielded {self._step}, and its last signal was at step {last}"
            ) from None


def _numbers(fresh: Sequence[tuple[int, float | Tensor]]) -> list[tuple[int, float]]:
    """Return the values as numbers, with a single device synchronization."""
    tensors = [value for _, value in fresh if isinstance(value, Tensor)]
    numbers = iter(torch.stack(tensors).tolist() if tensors else ())
    return [
        (step, next(numbers) if isinstance(value, Tensor) else float(value))
        for step, value in fresh
    ]
