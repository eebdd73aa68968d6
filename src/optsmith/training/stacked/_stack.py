"""Stacked training: many runs as one stack of model copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from optsmith.optim import Recipe
from optsmith.optim._baselines import Baseline, RuleForm
from optsmith.task import ModuleTask, Run
from optsmith.task._base import Metrics
from optsmith.task._batches import TensorBatches
from optsmith.training._plain import LOOK, Trace
from optsmith.training._stopping import BEHIND, Stopping
from optsmith.training.stacked._copies import Copies
from optsmith.training.stacked._feed import Feed, feeds
from optsmith.training.stacked._gradients import gradients_of
from optsmith.training.stacked._rows import RowOptimizer


def form_of(recipe: Recipe) -> RuleForm:
    """Return a recipe as a rule."""
    return recipe.as_rule() if isinstance(recipe, Baseline) else RuleForm(recipe)


def arranged(runs: Sequence[Run]) -> list[int]:
    """Return the order in which runs become the copies of a stack.

    Where all recipes have the same seeds, those of a seed stand together and share its batches, and
    each recipe has every so-many-th row. Otherwise the rows of a recipe follow each other, which is
    as good where there is but one seed.
    """
    places = list(_places(runs).values())
    seeds = [[runs[i].seed for i in of_one] for of_one in places]
    if seeds and len(set(seeds[0])) > 1 and all(others == seeds[0] for others in seeds):
        return [i for alike in zip(*places, strict=True) for i in alike]
    return [i for of_one in places for i in of_one]


class Stack:
    """The copies of some runs, in training.

    Args:
        task: What is trained.
        runs: The runs, of one length and on one device, arranged.
    """

    def __init__(self, task: ModuleTask, runs: Sequence[Run]) -> None:
        assert isinstance(task.data, TensorBatches)  # noqa: S101 - `stacks` has seen to it
        self.task, self._data, self.runs = task, task.data, list(runs)
        self.copies = Copies(task, [run.seed for run in runs], runs[0].device)
        self._gradients = gradients_of(task, self.copies.module)
        self._feeds = self._feed()
        self._rows = _rows(runs)
        self._optimizers = {r: self._optimizer(rows) for r, rows in self._rows.items()}

    def _optimizer(self, rows: slice) -> RowOptimizer:
        runs = self.runs[rows]
        form = form_of(runs[0].recipe)
        return RowOptimizer(
            form.rule,
            [matrix[rows] for matrix in self.copies.matrices],
            self.copies.columns,
            [run.lr * form.scale for run in runs],
            [run.seed for run in runs],
            runs[0].steps,
            form.weight_decay / form.scale,  # it goes with the learning rate of the run itself
            form.decay,
        )

    def _feed(self) -> Callable[[int], Feed]:
        first = self.runs[0]
        return feeds(self._data, [run.seed for run in self.runs], first.steps, first.device)

    def step(self, step: int) -> Tensor:
        """Train all copies one step; return their losses before it."""
        losses, gradients = self.copies.gradients(self._gradients, self._feeds(step))
        for recipe, rows in self._rows.items():
            self._optimizers[recipe].step([gradient[rows] for gradient in gradients])
        return losses

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some copies alone, in this order: arranged."""
        count = len(self.runs)
        # The place of each row among those of its optimizer.
        place = {i: j for r in self._rows.values() for j, i in enumerate(range(*r.indices(count)))}
        kept: dict[Recipe, list[int]] = {}
        for i in rows:
            kept.setdefault(self.runs[i].recipe, []).append(place[i])
        self.runs = [self.runs[i] for i in rows]
        self._feeds = self._feed()
        self.copies.keep(rows)
        self._rows = _rows(self.runs)
        self._optimizers = {recipe: self._optimizers[recipe] for recipe in kept}
        for recipe, of_it in kept.items():
            now = self._rows[recipe]
            self._optimizers[recipe].keep(of_it, [matrix[now] for matrix in self.copies.matrices])

    def state_bytes(self) -> list[float]:
        """Return the bytes of optimizer state a parameter, of each copy."""
        one = self.copies.state_bytes()
        return [self._optimizers[run.recipe].slots * one for run in self.runs]


def _rows(runs: Sequence[Run]) -> dict[Recipe, slice]:
    """Return the rows of each recipe, evenly spaced since the runs are arranged."""
    return {
        recipe: slice(of_it[0], of_it[-1] + 1, of_it[1] - of_it[0] if len(of_it) > 1 else 1)
        for recipe, of_it in _places(runs).items()
    }


def _places(runs: Sequence[Run]) -> dict[Recipe, list[int]]:
    """Return the places of each recipe's runs."""
    places: dict[Recipe, list[int]] = {}
    for i, run in enumerate(runs):
        places.setdefault(run.recipe, []).append(i)
    return places


@dataclass(slots=True)
class _Record:
    """What is known of one run so far."""

    run: Run
    place: int
    state_bytes: float
    signal: list[tuple[int, float]] = field(default_factory=list)
    seen: int = 0  # values that were there at the last look
    seconds: float = 0.0


def train_stack(task: ModuleTask, runs: Sequence[Run], stopping: Stopping) -> list[Trace]:
    """Train runs as one stack.

    Copies that `stopping` gives up leave the stack at the next look, and the rest goes on without
    them. The host waits for the device at looks, and where the task measures on held-out data.
    """
    return _Follower(task, runs, stopping).follow()


class _Follower:
    def __init__(self, task: ModuleTask, runs: Sequence[Run], stopping: Stopping) -> None:
        self.task, self.stopping = task, stopping
        self.steps = runs[0].steps
        order = arranged(runs)
        self.stack = Stack(task, [runs[i] for i in order])
        sizes = self.stack.state_bytes()
        self.records = [_Record(runs[i], i, size) for i, size in zip(order, sizes, strict=True)]
        self.traces: dict[int, Trace] = {}
        self._fresh: list[tuple[int, Tensor | list[float]]] = []

    def follow(self) -> list[Trace]:
        start = time.perf_counter()
        for step in range(1, self.steps + 1):
            self._signal(step, self.stack.step(step))
            if step % LOOK == 0 or step == self.steps:
                self._read()
                now = time.perf_counter()
                for record in self.records:
                    record.seconds += (now - start) / len(self.records)
                start = now
            if step % LOOK == 0:
                self._look(step)
                if not self.records:
                    break
        self._end()
        return [self.traces[i] for i in sorted(self.traces)]

    def _end(self) -> None:
        """Measure what is left."""
        for row, record in enumerate(self.records):
            why = self._why(record)
            metrics = self.task.measure(self.stack.copies.model(row), record.run)
            self._close(record, why, metrics)

    def _why(self, record: _Record) -> str:
        return self.stopping.why(record.signal, self.steps, record.seen)

    def _close(self, record: _Record, why: str, metrics: Metrics) -> None:
        self.traces[record.place] = Trace(
            record.signal, why, metrics, record.seconds, record.state_bytes
        )

    def _signal(self, step: int, losses: Tensor) -> None:
        if self.task.validation is None:
            self._fresh.append((step, losses))
        elif self.task.is_checkpoint(step, self.steps):
            model = self.stack.copies.model
            values = [self.task.check(model(i), r.run) for i, r in enumerate(self.records)]
            self._fresh.append((step, values))

    def _read(self) -> None:
        """Take in fresh values, with one wait for all."""
        tensors = [values for _, values in self._fresh if isinstance(values, Tensor)]
        numbers = iter(torch.stack(tensors).tolist() if tensors else ())
        for record in self.records:
            record.seen = len(record.signal)
        for step, values in self._fresh:
            row = next(numbers) if isinstance(values, Tensor) else values
            for record, value in zip(self.records, row, strict=True):
                record.signal.append((step, value))
        self._fresh = []

    def _behind(self, rows: Sequence[int]) -> set[int]:
        """Return which of the rows lose to others of the same recipe and seed."""
        races: dict[tuple[Recipe, int], list[int]] = {}
        for row in rows:
            run = self.records[row].run
            races.setdefault((run.recipe, run.seed), []).append(row)
        return {
            racing[i]
            for racing in races.values()
            for i in self.stopping.behind([self.records[row].signal for row in racing])
        }

    def _look(self, step: int) -> None:
        """Let go of what is hopeless."""
        whys = [self._why(record) for record in self.records]
        if self.stopping.is_rung(step, step - LOOK, self.steps):
            for row in self._behind([row for row, why in enumerate(whys) if not why]):
                whys[row] = BEHIND
        going = []
        for row, record in enumerate(self.records):
            if why := whys[row]:
                self._close(record, why, {})
            else:
                going.append(row)
        if len(going) < len(self.records):
            order = arranged([self.records[i].run for i in going])
            self.records = [self.records[going[i]] for i in order]
            if going:
                self.stack.keep([going[i] for i in order])
