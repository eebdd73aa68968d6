"""Where a module's batches come from: tensors in memory, or any loader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor

from optsmith._errors import TaskError
from optsmith.task._base import Run

Batch = tuple[Any, Any]
Prepare = Callable[[Any], Any]


class Batches(Protocol):
    """Data as a task reads it."""

    def train(self, run: Run) -> Iterator[Batch]:
        """Yield `run.steps` batches of inputs and targets, in an order that the seed decides."""

    def once(self, device: torch.device, most: int | None = None) -> Iterator[Batch]:
        """Yield everything once, in order, to measure on; at least the first `most` examples."""


class TensorBatches:
    """Tensors in memory; each epoch is a new permutation, and an incomplete batch is left out.

    Args:
        inputs: One row an example.
        targets: One row an example.
        batch_size: Examples a batch.
        prepare: Applied to the inputs of each batch, where they are trained on.
        measure_size: Examples a batch when all are measured on.
    """

    MEASURE = 8192

    def __init__(
        self,
        inputs: Tensor,
        targets: Tensor,
        batch_size: int,
        prepare: Prepare | None = None,
        measure_size: int = MEASURE,
    ) -> None:
        if len(inputs) != len(targets):
            raise TaskError(f"there are {len(inputs)} inputs but {len(targets)} targets")
        if min(batch_size, measure_size) < 1:
            name = "batch_size" if batch_size < 1 else "measure_size"
            raise TaskError(f"{name} must be at least 1, not {min(batch_size, measure_size)}")
        if not len(inputs):
            raise TaskError("there is no data to train on")
        self.inputs, self.targets = inputs, targets
        self.batch_size = min(batch_size, len(inputs))
        self.prepare, self.measure_size = prepare or _as_is, measure_size

    def order(self, seed: int, steps: int) -> Tensor:
        """Return the rows of each batch; every recipe sees the same for the same seed."""
        return _order(len(self.inputs), self.batch_size, seed, steps)

    def train(self, run: Run) -> Iterator[Batch]:
        """Yield `run.steps` batches."""
        inputs, targets = self.inputs.to(run.device), self.targets.to(run.device)
        for rows in self.order(run.seed, run.steps).to(run.device):
            yield self.prepare(inputs.index_select(0, rows)), targets.index_select(0, rows)

    def train_side_by_side(
        self, seeds: Sequence[int], steps: int, device: torch.device
    ) -> Callable[[int], tuple[Tensor, Tensor]]:
        """Return a function from a step, from 1, to the batches of several seeds.

        Inputs and targets have a first dimension for the seeds. They are gathered by one call into
        the same memory at each step, so they are written over at the next.
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
            if self.prepare is not _as_is:
                chosen = torch.stack([self.prepare(one) for one in chosen])
            return chosen, wanted

        return gather

    def once(self, device: torch.device, most: int | None = None) -> Iterator[Batch]:
        """Yield everything once, or the first `most` examples."""
        count = len(self.inputs) if most is None else min(most, len(self.inputs))
        for start in range(0, count, self.measure_size):
            piece = slice(start, min(start + self.measure_size, count))
            yield self.prepare(self.inputs[piece].to(device)), self.targets[piece].to(device)


@lru_cache(maxsize=32)
def _order(count: int, batch_size: int, seed: int, steps: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    per_epoch = count // batch_size
    epochs = [
        torch.randperm(count, generator=generator)[: per_epoch * batch_size]
        for _ in range(-(-steps // per_epoch))
    ]
    return torch.cat(epochs).view(-1, batch_size)[:steps]


class LoaderBatches:
    """Any iterable of (inputs, targets), such as a DataLoader, begun anew when it ends.

    torch's generator is seeded for each run, so a DataLoader shuffles alike for equal seeds.

    Args:
        loader: The iterable; it must be possible to iterate over it again.
        prepare: Applied to the inputs of each batch, where they are trained on.
    """

    def __init__(self, loader: Iterable[Batch], prepare: Prepare | None = None) -> None:
        if iter(loader) is loader:
            raise TaskError("the data can be read once only: give a list or a DataLoader")
        self.loader, self.prepare = loader, prepare or _as_is

    def train(self, run: Run) -> Iterator[Batch]:
        """Yield `run.steps` batches."""
        done = 0
        while done < run.steps:
            before = done
            for inputs, targets in self.loader:
                yield self.prepare(_to(inputs, run.device)), _to(targets, run.device)
                done += 1
                if done == run.steps:
                    return
            if done == before:
                raise TaskError("there is no data to train on")

    def once(self, device: torch.device, most: int | None = None) -> Iterator[Batch]:
        """Yield everything once, or whole batches until there are `most` examples."""
        done = 0
        for inputs, targets in self.loader:
            if most is not None and done >= most:
                return
            yield self.prepare(_to(inputs, device)), _to(targets, device)
            done += len(targets)


class RefitBatches:
    """Data of which a search holds some out, and final runs nothing.

    Args:
        held: What a search trains on.
        whole: What final runs train on.
    """

    def __init__(self, held: Batches, whole: Batches) -> None:
        self.held, self.whole = held, whole

    def train(self, run: Run) -> Iterator[Batch]:
        """Yield `run.steps` batches."""
        return (self.whole if run.final else self.held).train(run)

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
        data: A pair of tensors (inputs, targets), or an iterable of such pairs.
        batch_size: Examples a batch, for tensors.
        prepare: Applied to the inputs of each batch.
        measure_size: Examples a batch when all are measured on, for tensors.
    """
    if isinstance(data, tuple) and len(data) == 2 and all(isinstance(t, Tensor) for t in data):
        return TensorBatches(*data, batch_size, prepare, measure_size)
    if isinstance(data, Iterable):
        return LoaderBatches(data, prepare)
    raise TaskError("data is a pair of tensors (inputs, targets) or a loader of such pairs")


def _as_is(inputs: Any) -> Any:
    return inputs


def _to(item: Any, device: torch.device) -> Any:
    if isinstance(item, Tensor):
        return item.to(device, non_blocking=True)
    if isinstance(item, dict):
        return {key: _to(value, device) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return type(item)(_to(value, device) for value in item)
    return item
