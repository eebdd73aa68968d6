"""The interfaces of sources and readers of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch

from optsmith.task._base import Run
from optsmith.task._batch import Batch, is_pair

Prepare = Callable[[Any], Any]
Position = dict[str, Any]
"""The position of a reader in its data, as tensors and numbers."""


class Reader(Protocol):
    """Reads the batches of one run in order."""

    def __iter__(self) -> Iterator[Batch]:
        """Return the reader itself."""

    def __next__(self) -> Batch:
        """Return the next batch."""

    def position(self) -> Position:
        """Return the position; a reader created with it continues from here."""


class Batches(Protocol):
    """A source of batches."""

    def train(self, run: Run, per_step: int = 1, position: Position | None = None) -> Reader:
        """Return a reader of `per_step` batches per step, in an order that depends on the seed.

        Args:
            run: The run.
            per_step: Batches per optimizer step.
            position: Position of an earlier reader of the same run to continue from.
        """

    def once(self, device: torch.device, most: int | None = None) -> Iterator[Batch]:
        """Iterate once over the data in order, or over at least the first `most` examples."""


def prepared(batch: Batch, prepare: Prepare | None) -> Batch:
    """Return a batch with `prepare` applied to its inputs, or to all of it if not a pair."""
    if prepare is None:
        return batch
    if not is_pair(batch):
        return prepare(batch)
    inputs, targets = batch
    pair = (prepare(inputs), targets)
    return type(batch)(*pair) if hasattr(batch, "_fields") else pair
