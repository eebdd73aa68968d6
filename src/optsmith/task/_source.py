"""The interfaces of sources and readers of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from optsmith._errors import TaskError
from optsmith.task._base import Run
from optsmith.task._batch import Batch, is_pair

Prepare = Callable[[Any], Any]
Position = dict[str, Any]
"""The position of a reader in its data, as tensors and numbers."""

SPLIT_SEED = 20223
"""Seed of everything that is random in the division of data, so that a task is always the same."""


class Reader(Protocol):
    """Reads the batches of one run in order."""

    def __iter__(self) -> Iterator[Batch]:
        """Return the reader itself."""

    def __next__(self) -> Batch:
        """Return the next batch."""

    def position(self) -> Position:
        """Return the position; a reader created with it continues from here."""


class NotDivisibleError(TaskError):
    """Data cannot be divided into parts; the message says why."""


@dataclass(frozen=True, slots=True)
class Examples:
    """The examples of a source that can be divided into parts.

    Attributes:
        count: Number of examples.
        labels: The class of each example; None if the targets are not class indices.
    """

    count: int
    labels: Tensor | None = None


class Batches(Protocol):
    """A source of batches.

    Attributes:
        batch_size: Examples per training batch; 1 if it is not known.
    """

    @property
    def batch_size(self) -> int: ...

    def train(self, run: Run, per_step: int = 1, position: Position | None = None) -> Reader:
        """Return a reader of `per_step` batches per step, in an order that depends on the seed.

        Args:
            run: The run.
            per_step: Batches per optimizer step.
            position: Position of an earlier reader of the same run to continue from.
        """

    def once(self, device: torch.device, most: int | None = None) -> Iterator[Batch]:
        """Iterate once over the data in order.

        Args:
            device: The device of the batches.
            most: Number of examples, if a fixed random sample is enough. Sources that cannot be
                sampled are read completely.
        """

    def examples(self) -> Examples:
        """Return the number of examples and their classes.

        Raises:
            NotDivisibleError: The data cannot be divided into parts.
        """

    def part(self, rows: Tensor, training: bool) -> Batches:
        """Return a source of some of the examples.

        Args:
            rows: Indices of the examples.
            training: Whether the part is training data, which may be shuffled and may drop
                incomplete batches, rather than evaluated once in the order of `rows`.
        """


def shuffled(count: int) -> Tensor:
    """Return the numbers below `count` in a fixed random order."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(SPLIT_SEED))


def class_labels(targets: Any) -> Tensor | None:
    """Return targets that are class indices, one per example, on the CPU; None otherwise."""
    if not isinstance(targets, Tensor) or targets.ndim != 1:
        return None
    return None if targets.is_floating_point() or targets.is_complex() else targets.cpu()


def prepared(batch: Batch, prepare: Prepare | None) -> Batch:
    """Return a batch with `prepare` applied to its inputs, or to all of it if not a pair."""
    if prepare is None:
        return batch
    if not is_pair(batch):
        return prepare(batch)
    inputs, targets = batch
    pair = (prepare(inputs), targets)
    return type(batch)(*pair) if hasattr(batch, "_fields") else pair
