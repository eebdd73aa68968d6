"""Batches from a data loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from optsmith._errors import TaskError
from optsmith.task._base import Run
from optsmith.task._batch import Batch, size_of, to_device
from optsmith.task._random import random_state, set_random_state
from optsmith.task._source import Position, Prepare, Reader, prepared


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

    def train(self, run: Run, per_step: int = 1, position: Position | None = None) -> Reader:
        """Return a reader of a run's batches."""
        count = run.steps * per_step
        return _LoaderReader(self.loader, count, self.prepare, run.device, position)

    def once(self, device: torch.device, most: int | None = None) -> Iterator[Batch]:
        """Iterate once over the data, or over whole batches until at least `most` examples."""
        done = 0
        for batch in self.loader:
            if most is not None and done >= most:
                return
            yield prepared(to_device(batch, device), self.prepare)
            done += size_of(batch)


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
