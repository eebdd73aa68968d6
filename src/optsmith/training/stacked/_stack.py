"""Training of several runs as one stack of model copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from optsmith.optim import Recipe, form_of, hidden_parameters
from optsmith.rules import skeleton
from optsmith.task import Metrics, ModuleTask, Run, TensorBatches
from optsmith.training._plain import LOOK, Trace
from optsmith.training._stopping import WORSE_HALF, Stopping
from optsmith.training.stacked._copies import Copies
from optsmith.training.stacked._evaluation import HeldOut
from optsmith.training.stacked._gradients import Feed, feeds
from optsmith.training.stacked._rows import RowOptimizer


def arranged(runs: Sequence[Run]) -> list[int]:
    """Return the order of runs in a stack, as indices.

    Runs of the same kind, whose rules differ in constants only, have one optimizer. If all kinds
    have the same seeds, runs are grouped by seed to share batches, so the rows of a kind are evenly
    spaced. Otherwise they are grouped by kind and then by seed.
    """
    places = [sorted(of_one, key=lambda i: runs[i].seed) for of_one in _places(runs).values()]
    seeds = [[runs[i].seed for i in of_one] for of_one in places]
    if seeds and len(set(seeds[0])) > 1 and all(others == seeds[0] for others in seeds):
        return [i for alike in zip(*places, strict=True) for i in alike]
    return [i for of_one in places for i in of_one]


class Stack:
    """A stack of model copies and their optimizers.

    Args:
        task: The task.
        runs: The runs, of equal length and device, in the order of `arranged`.
    """

    def __init__(self, task: ModuleTask, runs: Sequence[Run]) -> None:
        assert isinstance(task.data, TensorBatches)  # noqa: S101 - checked before stacks are used
        self.task, self._data, self.runs = task, task.data, list(runs)
        self.copies = Copies(task, [run.seed for run in runs], runs[0].device)
        self._feeds = self._feed()
        self._rows = _rows(runs)
        self._hidden = hidden_parameters(self.copies.module)
        self._optimizers = {kind: self._optimizer(rows) for kind, rows in self._rows.items()}

    def _optimizer(self, rows: slice) -> RowOptimizer:
        runs = self.runs[rows]
        forms = [form_of(run.recipe) for run in runs]
        form = forms[0]
        assert form is not None  # noqa: S101 - `stacks` leaves other recipes out
        return RowOptimizer(
            [f.rule for f in forms if f is not None],
            [matrix[rows] for matrix in self.copies.matrices],
            self.copies.columns,
            [run.lr * form.scale for run in runs],
            [run.seed for run in runs],
            runs[0].steps,
            self._hidden,
        )

    def _feed(self) -> Callable[[int], Feed]:
        first = self.runs[0]
        return feeds(self._data, [run.seed for run in self.runs], first.steps, first.device)

    def step(self, step: int) -> Tensor:
        """Train all copies for one step and return their losses before it."""
        losses, gradients = self.copies.gradients(self._feeds(step))
        for kind, rows in self._rows.items():
            self._optimizers[kind].step([gradient[rows] for gradient in gradients])
        return losses

    def keep(self, rows: Sequence[int]) -> None:
        """Remove all copies except these, given in the order of `arranged`."""
        count = len(self.runs)
        # The index of each row among the rows of its optimizer.
        place = {i: j for r in self._rows.values() for j, i in enumerate(range(*r.indices(count)))}
        kept: dict[Kind, list[int]] = {}
        for i in rows:
            kept.setdefault(_kind(self.runs[i]), []).append(place[i])
        self.runs = [self.runs[i] for i in rows]
        self._feeds = self._feed()
        self.copies.keep(rows)
        self._rows = _rows(self.runs)
        self._optimizers = {kind: self._optimizers[kind] for kind in kept}
        for kind, of_it in kept.items():
            now = self._rows[kind]
            self._optimizers[kind].keep(of_it, [matrix[now] for matrix in self.copies.matrices])

    def state_bytes(self) -> list[float]:
        """Return the bytes of optimizer state per parameter for each copy."""
        return [self._optimizers[_kind(run)].state_bytes() for run in self.runs]


Kind = tuple[Any, ...]
"""What the runs of one optimizer have in common: all but constants and learning rates."""


def _kind(run: Run) -> Kind:
    form = form_of(run.recipe)
    assert form is not None  # noqa: S101 - `stacks` leaves other recipes out
    return (skeleton(form.rule), form.scale)


def _rows(runs: Sequence[Run]) -> dict[Kind, slice]:
    """Return the rows of each kind, which are evenly spaced in the order of `arranged`."""
    return {
        kind: slice(of_it[0], of_it[-1] + 1, of_it[1] - of_it[0] if len(of_it) > 1 else 1)
        for kind, of_it in _places(runs).items()
    }


def _places(runs: Sequence[Run]) -> dict[Kind, list[int]]:
    """Return the indices of the runs of each kind."""
    places: dict[Kind, list[int]] = {}
    for i, run in enumerate(runs):
        places.setdefault(_kind(run), []).append(i)
    return places


@dataclass(slots=True)
class _Tracked:
    """A run of the stack with its signal so far."""

    run: Run
    place: int
    state_bytes: float
    signal: list[tuple[int, float]] = field(default_factory=list)
    seen: int = 0  # number of values at the last check
    seconds: float = 0.0


def train_stack(task: ModuleTask, runs: Sequence[Run], stopping: Stopping) -> list[Trace]:
    """Return the traces of runs, trained as one stack.

    Runs that meet a stopping criterion are removed from the stack at the next check. The host
    synchronizes with the device at checks and when the task evaluates validation or test data.
    """
    return _StackTraining(task, runs, stopping).train()


class _StackTraining:
    """Trains a stack, reads its signals and removes stopped runs."""

    def __init__(self, task: ModuleTask, runs: Sequence[Run], stopping: Stopping) -> None:
        self.task, self.stopping = task, stopping
        self.steps = runs[0].steps
        self.held_out = None if task.measured is None else HeldOut(task)
        order = arranged(runs)
        self.stack = Stack(task, [runs[i] for i in order])
        sizes = self.stack.state_bytes()
        self.tracked = [_Tracked(runs[i], i, size) for i, size in zip(order, sizes, strict=True)]
        self.traces: dict[int, Trace] = {}
        self._fresh: list[tuple[int, Tensor | list[float]]] = []

    def train(self) -> list[Trace]:
        start = time.perf_counter()
        for step in range(1, self.steps + 1):
            self._signal(step, self.stack.step(step))
            if step % LOOK == 0 or step == self.steps:
                self._read()
                now = time.perf_counter()
                for one in self.tracked:
                    one.seconds += (now - start) / len(self.tracked)
                start = now
            if step % LOOK == 0:
                self._look(step)
                if not self.tracked:
                    break
        self._end()
        return [self.traces[i] for i in sorted(self.traces)]

    def _end(self) -> None:
        """Compute the final metrics of the copies that reached the end."""
        for row, one in enumerate(self.tracked):
            why = self._why(one)
            metrics = self.task.measure(self.stack.copies.model(row), one.run)
            self._close(one, why, metrics)

    def _why(self, one: _Tracked) -> str:
        return self.stopping.why(one.signal, self.steps, one.seen)

    def _close(self, one: _Tracked, why: str, metrics: Metrics) -> None:
        self.traces[one.place] = Trace(one.signal, why, metrics, one.seconds, one.state_bytes)

    def _signal(self, step: int, losses: Tensor) -> None:
        if self.held_out is None:
            self._fresh.append((step, losses))
        elif self.task.is_checkpoint(step, self.steps):
            values = self.held_out.signals(self.stack.copies, self.tracked[0].run)
            self._fresh.append((step, values))

    def _read(self) -> None:
        """Append new values to the signals, with a single device synchronization."""
        tensors = [values for _, values in self._fresh if isinstance(values, Tensor)]
        numbers = iter(torch.stack(tensors).tolist() if tensors else ())
        for one in self.tracked:
            one.seen = len(one.signal)
        for step, values in self._fresh:
            row = next(numbers) if isinstance(values, Tensor) else values
            for one, value in zip(self.tracked, row, strict=True):
                one.signal.append((step, value))
        self._fresh = []

    def _worse_half(self, rows: Sequence[int]) -> set[int]:
        """Return the rows in the worse half of their recipe and seed."""
        races: dict[tuple[Recipe, int], list[int]] = {}
        for row in rows:
            run = self.tracked[row].run
            races.setdefault((run.recipe, run.seed), []).append(row)
        return {
            racing[i]
            for racing in races.values()
            for i in self.stopping.worse_half([self.tracked[row].signal for row in racing])
        }

    def _look(self, step: int) -> None:
        """Remove the copies whose runs are stopped."""
        whys = [self._why(one) for one in self.tracked]
        if self.stopping.is_rung(step, step - LOOK, self.steps):
            for row in self._worse_half([row for row, why in enumerate(whys) if not why]):
                whys[row] = WORSE_HALF
        going = []
        for row, one in enumerate(self.tracked):
            if why := whys[row]:
                self._close(one, why, {})
            else:
                going.append(row)
        if len(going) < len(self.tracked):
            order = arranged([self.tracked[i].run for i in going])
            self.tracked = [self.tracked[going[i]] for i in order]
            if going:
                self.stack.keep([going[i] for i in order])
