"""Batches from tensors in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from optsmith._errors import TaskError
from optsmith.task._base import Run
from optsmith.task._batch import Batch, is_pair, map_tensors, to_device
from optsmith.task._source import (
    Examples,
    Position,
    Prepare,
    Reader,
    class_labels,
    prepared,
    shuffled,
)


class TensorBatches:
    """Batches from tensors in memory, shuffled every epoch; incomplete batches are dropped.

    Args:
        columns: A pair of tensors (inputs, targets), one tensor, or a tuple or mapping of tensors,
            each with one row per example.
        batch_size: Examples per training batch.
        prepare: Function applied on the device to the inputs of each batch, or to the whole batch
            if it is not a pair.
        measure_size: Examples per batch in evaluation.
    """

    MEASURE = 8192

    def __init__(
        self,
        columns: Batch,
        batch_size: int,
        prepare: Prepare | None = None,
        measure_size: int = MEASURE,
    ) -> None:
        self.count = _rows(columns)
        if min(batch_size, measure_size) < 1:
            name = "batch_size" if batch_size < 1 else "measure_size"
            raise TaskError(f"{name} must be at least 1, not {min(batch_size, measure_size)}")
        if not self.count:
            raise TaskError("the training data is empty")
        self.columns = columns
        self.batch_size = min(batch_size, self.count)
        self.prepare, self.measure_size = prepare, measure_size

    @property
    def is_pair_of_tensors(self) -> bool:
        """Whether each batch is a pair of tensors."""
        return is_pair(self.columns) and all(isinstance(t, Tensor) for t in self.columns)

    @property
    def inputs(self) -> Tensor:
        """The inputs of a pair of tensors."""
        inputs: Tensor = self.columns[0]
        return inputs

    @property
    def targets(self) -> Tensor:
        """The targets of a pair of tensors."""
        targets: Tensor = self.columns[1]
        return targets

    def order(self, seed: int, batches: int) -> Tensor:
        """Return the row indices of each batch, which depend only on the seed."""
        return _order(self.count, self.batch_size, seed, batches)

    def train(self, run: Run, per_step: int = 1, position: Position | None = None) -> Reader:
        """Return a reader of a run's batches."""
        rows = self.order(run.seed, run.steps * per_step).to(run.device)
        columns = to_device(self.columns, run.device)
        return _RowReader(columns, rows, self.prepare, 0 if position is None else position["done"])

    def train_side_by_side(
        self, seeds: Sequence[int], steps: int, device: torch.device
    ) -> Callable[[int], tuple[Tensor, Tensor]]:
        """Return a function from a step, counted from 1, to the batches of several seeds.

        For pairs of tensors. Inputs and targets have a leading dimension for the seeds. Both are
        gathered into the same buffers at every step, so a batch is valid until the next call.
        """
        inputs, targets = self.inputs.to(device), self.targets.to(device)
        orders = torch.stack([self.order(seed, steps) for seed in seeds], dim=1).to(device)
        shape = orders.shape[1:]
        rows = orders.flatten(1).unbind()
        room = [t.new_empty(shape.numel(), *t.shape[1:]) for t in (inputs, targets)]

        def gather(step: int) -> tuple[Tensor, Tensor]:
            chosen, wanted = (
                torch.index_select(t, 0, rows[step - 1], out=r).view(*shape, *t.shape[1:])
                for t, r in zip((inputs, targets), room, strict=True)
            )
            if self.prepare is not None:
                chosen = torch.stack([self.prepare(one) for one in chosen])
            return chosen, wanted

        return gather

    def once(self, device: torch.device, most: int | None = None) -> Iterator[Batch]:
        """Iterate once over the data, or over a fixed random sample of `most` examples."""
        columns, count, size = self.columns, self.count, self.measure_size
        if most is not None and most < count:
            columns, count = self._shuffled, most
        for start in range(0, count, size):
            rows = map_tensors(itemgetter(slice(start, min(start + size, count))), columns)
            yield prepared(to_device(rows, device), self.prepare)

    @cached_property
    def _shuffled(self) -> Batch:
        """All rows in a fixed random order, so that the first rows are a random sample."""
        order = shuffled(self.count)
        return map_tensors(lambda t: t[order.to(t.device)], self.columns)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_shuffled"}

    def examples(self) -> Examples:
        """Return the number of rows, and the targets of a pair if they are class indices."""
        return Examples(
            self.count, class_labels(self.columns[1]) if is_pair(self.columns) else None
        )

    def part(self, rows: Tensor, training: bool) -> TensorBatches:
        """Return a source of some of the rows."""
        columns = map_tensors(lambda t: t[rows.to(t.device)], self.columns)
        return TensorBatches(columns, self.batch_size, self.prepare, self.measure_size)


class _RowReader:
    """Reads batches of rows from tensors."""

    def __init__(self, columns: Batch, rows: Tensor, prepare: Prepare | None, done: int) -> None:
        self._columns, self._prepare, self._done = columns, prepare, done
        self._rows = rows.unbind()

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._done == len(self._rows):
            raise StopIteration
        rows = self._rows[self._done]
        self._done += 1
        return prepared(
            map_tensors(lambda t: t.index_select(0, rows), self._columns), self._prepare
        )

    def position(self) -> Position:
        return {"done": self._done}


def _rows(columns: Batch) -> int:
    """Return the number of rows, which must be the same for all tensors."""
    lengths: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        if not tensor.ndim:
            raise TaskError(
                "data in memory must be tensors with one row per example, not 0-dim tensors"
            )
        lengths.append(len(tensor))
        return tensor

    map_tensors(note, columns)
    if len(set(lengths)) == 1:
        return lengths[0]
    if is_pair(columns) and len(lengths) == 2:
        raise TaskError(f"there are {lengths[0]} inputs but {lengths[1]} targets")
    raise TaskError(f"the tensors of the data have different lengths: {lengths}")


@lru_cache(maxsize=32)
def _order(count: int, batch_size: int, seed: int, batches: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    per_epoch = count // batch_size
    epochs = [
        torch.randperm(count, generator=generator)[: per_epoch * batch_size]
        for _ in range(-(-batches // per_epoch))
    ]
    return torch.cat(epochs).view(-1, batch_size)[:batches]
