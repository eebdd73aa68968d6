"""Conversion of users' data to sources of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from optsmith._errors import TaskError
from optsmith.task._base import Run
from optsmith.task._batch import Batch
from optsmith.task._loader import LoaderBatches
from optsmith.task._source import (
    Batches,
    Examples,
    NotDivisibleError,
    Position,
    Prepare,
    Reader,
)
from optsmith.task._tensors import TensorBatches


class RefitBatches:
    """A source of batches with different training data in search runs and final runs.

    Args:
        held: Training data of search runs.
        whole: Training data of final runs.
    """

    def __init__(self, held: Batches, whole: Batches) -> None:
        self.held, self.whole = held, whole

    @property
    def batch_size(self) -> int:
        """Examples per training batch of search runs."""
        return self.held.batch_size

    def train(self, run: Run, per_step: int = 1, position: Position | None = None) -> Reader:
        """Return a reader of a run's batches."""
        return (self.whole if run.final else self.held).train(run, per_step, position)

    def once(self, device: torch.device, most: int | None = None) -> Iterator[Batch]:
        """Iterate once over the training data of search runs."""
        return self.held.once(device, most)

    def examples(self) -> Examples:
        """Refuse: the rows of the two sources are different examples."""
        raise NotDivisibleError("data that is different in final runs (refit) cannot be split")

    def part(self, rows: Tensor, training: bool) -> Batches:
        """Refuse, as `examples` does."""
        raise NotDivisibleError("data that is different in final runs (refit) cannot be split")


def batches(
    data: Any,
    batch_size: int,
    prepare: Prepare | None = None,
    measure_size: int = TensorBatches.MEASURE,
) -> Batches:
    """Return a source of batches for a user's data.

    Args:
        data: Tensors in memory, which are split into batches: a pair (inputs, targets), one tensor,
            or a tuple or mapping of tensors. Or an iterable of batches of any type.
        batch_size: Examples per training batch, for tensors.
        prepare: Function applied to the inputs of each batch.
        measure_size: Examples per batch in evaluation, for tensors.

    Raises:
        TaskError: The data has another type.
    """
    if _in_memory(data) or (isinstance(data, tuple) and data and all(map(_in_memory, data))):
        return TensorBatches(data, batch_size, prepare, measure_size)
    if isinstance(data, Mapping):
        raise TaskError("data given as a mapping needs a tensor for every key, one row per example")
    if isinstance(data, Iterable):
        return LoaderBatches(data, prepare)
    raise TaskError(
        "data must be a pair of tensors (inputs, targets), other tensors in memory, or an iterable"
        " of batches"
    )


def _in_memory(item: Any) -> bool:
    """Return whether an item is a tensor or a mapping of tensors."""
    if isinstance(item, Mapping):
        return bool(item) and all(isinstance(value, Tensor) for value in item.values())
    return isinstance(item, Tensor)
