"""Data in the form that tasks read: tensors in memory, or any loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from optsmith._errors import TaskError
from optsmith.task._base import Run
from optsmith.task._batch import Batch
from optsmith.task._loader import LoaderBatches
from optsmith.task._source import Batches, Position, Prepare, Reader
from optsmith.task._tensors import TensorBatches


class RefitBatches:
    """Data of which a search holds some out, and final runs nothing.

    Args:
        held: What a search trains on.
        whole: What final runs train on.
    """

    def __init__(self, held: Batches, whole: Batches) -> None:
        self.held, self.whole = held, whole

    def train(self, run: Run, per_step: int = 1, position: Position | None = None) -> Reader:
        """Return the batches of a run."""
        return (self.whole if run.final else self.held).train(run, per_step, position)

    def once(self, device: torch.device, most: int | None = None) -> Iterator[Batch]:
        """Yield once what a search trains on."""
        return self.held.once(device, most)


def batches(
    data: Any,
    batch_size: int,
    prepare: Prepare | None = None,
    measure_size: int = TensorBatches.MEASURE,
) -> Batches:
    """Return data in the form that tasks read.

    Args:
        data: Tensors in memory, which are batched here: a pair of tensors (inputs, targets), one
            tensor, a tuple or mapping of tensors; or an iterable of batches of any kind.
        batch_size: Examples per batch, for tensors.
        prepare: Applied to the inputs of each batch.
        measure_size: Examples per batch when all are measured on, for tensors.

    Raises:
        TaskError: It is neither.
    """
    if _in_memory(data) or (isinstance(data, tuple) and data and all(map(_in_memory, data))):
        return TensorBatches(data, batch_size, prepare, measure_size)
    if isinstance(data, Mapping):
        raise TaskError("data given as a mapping needs a tensor for every key, one row per example")
    if isinstance(data, Iterable):
        return LoaderBatches(data, prepare)
    raise TaskError(
        "data is a pair of tensors (inputs, targets), other tensors in memory, or a loader of"
        " batches"
    )


def _in_memory(item: Any) -> bool:
    """Return whether an item is a tensor or a mapping of tensors."""
    if isinstance(item, Mapping):
        return bool(item) and all(isinstance(value, Tensor) for value in item.values())
    return isinstance(item, Tensor)
