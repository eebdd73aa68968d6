"""Batches from a data loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
)

from optsmith._errors import TaskError
from optsmith.task._base import Run
from optsmith.task._batch import Batch, to_device
from optsmith.task._random import random_state, set_random_state
from optsmith.task._source import (
    Examples,
    NotDivisibleError,
    Position,
    Prepare,
    Reader,
    class_labels,
    prepared,
    shuffled,
)


class LoaderBatches:
    """Batches from any iterable, such as a DataLoader, restarted at the end of each epoch.

    torch's generator is seeded for each run, so a DataLoader shuffles equally for equal seeds.

    Args:
        loader: The iterable. It must support repeated iteration.
        prepare: Function applied on the device to the inputs of each batch, or to the whole batch
            if it is not a pair.
    """

    def __init__(self, loader: Iterable[Batch], prepare: Prepare | None = None) -> None:
        if isinstance(loader, Iterator):
            raise TaskError(
                "the data is an iterator, which can be read only once: pass a list or a DataLoader"
            )
        self.loader, self.prepare = loader, prepare

    @property
    def batch_size(self) -> int:
        """The loader's batch size; 1 if it has none."""
        size = getattr(self.loader, "batch_size", None)
        return size if isinstance(size, int) else 1

    def train(self, run: Run, per_step: int = 1, position: Position | None = None) -> Reader:
        """Return a reader of a run's batches."""
        count = run.steps * per_step
        return _LoaderReader(self.loader, count, self.prepare, run.device, position)

    def once(self, device: torch.device, most: int | None = None) -> Iterator[Batch]:
        """Iterate once over the data, or over a fixed random sample of `most` examples.

        A loader that cannot be divided is read completely: its first batches may be of one class.
        """
        loader = self.loader
        if most is not None:
            with suppress(NotDivisibleError):
                loader = self.part(shuffled(self.examples().count)[:most], training=False).loader
        for batch in loader:
            yield prepared(to_device(batch, device), self.prepare)

    def examples(self) -> Examples:
        """Return the number of examples of the loader's dataset, and their classes if known."""
        dataset = _divisible(self.loader).dataset
        return Examples(len(dataset), _labels(dataset))  # type: ignore[arg-type]

    def part(self, rows: Tensor, training: bool) -> LoaderBatches:
        """Return a source of some of the dataset's examples, with a loader of the same settings."""
        return LoaderBatches(_rebuilt(_divisible(self.loader), rows, training), self.prepare)


def _divisible(loader: Iterable[Batch]) -> DataLoader[Any]:
    """Return a loader that can be made again for a part of its dataset.

    Raises:
        NotDivisibleError: It cannot.
    """
    if not isinstance(loader, DataLoader):
        raise NotDivisibleError(f"data of type {type(loader).__name__} cannot be split")
    if type(loader).__iter__ is not DataLoader.__iter__:
        raise NotDivisibleError(
            f"a loader of type {type(loader).__name__}, with its own iteration, cannot be split"
        )
    dataset = loader.dataset
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise NotDivisibleError("a DataLoader whose dataset has no indices cannot be split")
    if loader.batch_size is None or type(loader.batch_sampler) is not BatchSampler:
        raise NotDivisibleError("a DataLoader with its own batch_sampler cannot be split")
    if type(loader.sampler) not in (SequentialSampler, RandomSampler):
        raise NotDivisibleError("a DataLoader with its own sampler cannot be split")
    return loader


def _rebuilt(loader: DataLoader[Any], rows: Tensor, training: bool) -> DataLoader[Any]:
    """Return a loader of some of the examples of another, with the same settings.

    For training it shuffles and drops incomplete batches as the other does; otherwise it does
    neither.
    """
    dataset: Subset[Any] = Subset(loader.dataset, rows.tolist())
    sampler, other = None, loader.sampler
    if training and isinstance(other, RandomSampler):
        whole = other.num_samples == len(loader.dataset)  # type: ignore[arg-type]
        count = None if whole else other.num_samples
        sampler = RandomSampler(dataset, other.replacement, count, other.generator)
    return DataLoader(
        dataset,
        batch_size=loader.batch_size,
        sampler=sampler,
        drop_last=loader.drop_last and training,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=loader.generator if training else None,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers and training,
    )


def _labels(dataset: Any) -> Tensor | None:
    """Return the class of each example of a dataset that has them at hand; None otherwise."""
    if isinstance(dataset, Subset):
        labels = _labels(dataset.dataset)
        return None if labels is None else labels[torch.as_tensor(list(dataset.indices))]
    if isinstance(dataset, TensorDataset):
        return class_labels(dataset.tensors[1]) if len(dataset.tensors) == 2 else None
    for name in ("targets", "labels"):
        found = getattr(dataset, name, None)
        if isinstance(found, list | tuple | np.ndarray | Tensor) and len(found) == len(dataset):
            try:
                return class_labels(torch.as_tensor(found))
            except (TypeError, ValueError, RuntimeError):  # not numbers
                continue
    return None


class _LoaderReader:
    """Reads a loader's batches epoch by epoch.

    An epoch can be repeated: a loader that shuffles with torch's generator gives the same order
    from the generator state at the start of the epoch.
    """

    def __init__(
        self,
        loader: Iterable[Batch],
        count: int,
        prepare: Prepare | None,
        device: torch.device,
        position: Position | None,
    ) -> None:
        self._loader, self._prepare, self._device = loader, prepare, device
        self._left = count
        self._epoch: Iterator[Batch] | None = None
        self._taken = 0  # batches read in this epoch
        self._began = random_state(device)  # at the start of this epoch
        if position is not None:
            self._go_to(position)

    def _go_to(self, position: Position) -> None:
        self._left = position["left"]
        if not position["taken"]:
            return
        now = random_state(self._device)
        set_random_state(position["began"], self._device)
        self._begin()
        for _ in range(position["taken"]):
            next(self._epoch)  # type: ignore[arg-type]
        self._taken = position["taken"]
        set_random_state(now, self._device)

    def _begin(self) -> None:
        self._began, self._taken = random_state(self._device), 0
        self._epoch = iter(self._loader)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if not self._left:
            raise StopIteration
        batch = self._read()
        self._taken += 1
        self._left -= 1
        return prepared(to_device(batch, self._device), self._prepare)

    def _read(self) -> Batch:
        if self._epoch is None:
            self._begin()
        try:
            return next(self._epoch)  # type: ignore[arg-type]
        except StopIteration:
            self._begin()
        try:
            return next(self._epoch)  # type: ignore[arg-type]
        except StopIteration:
            raise TaskError("the training data is empty") from None

    def position(self) -> Position:
        return {"left": self._left, "taken": self._taken, "began": self._began}
