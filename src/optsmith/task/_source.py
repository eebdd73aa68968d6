"""The contract of a source of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch

from optsmith.task._base import Run
from optsmith.task._batch import Batch, is_pair

Prepare = Callable[[Any], Any]
Position = dict[str, Any]
"""Where a reader is in its data, as tensors and numbers."""


class Reader(Protocol):
    """The batches of one run, in order."""

    def __iter__(self) -> Iterator[Batch]:
        """Return the reader itself."""

    def __next__(self) -> Batch:
        """Return the next batch."""

    def position(self) -> Position:
        """Return where it is; a reader made with this goes on from here."""


class Batches(Protocol):
    """Data as a task reads it."""

    def train(self, run: Run, per_step: int = 1, position: Position | None = None) -> Reader:
        """Return `per_step` batches for each of a run's steps, in an order that the seed decides.

        Args:
            run: The run.
            per_step: Batches per optimizer step.
            position: Where to go on, as a reader of the same run said.
        """

    def once(self, device: torch.device, most: int | None = None) -> Iterator[Batch]:
        """Yield everything once, in order, to measure on; at least the first `most` examples."""


def prepared(batch: Batch, prepare: Prepare | None) -> Batch:
    """Return a batch with its inputs prepared; all of it, if it is not a pair."""
    if prepare is None:
        return batch
    if not is_pair(batch):
        return prepare(batch)
    inputs, targets = batch
    pair = (prepare(inputs), targets)
    return type(batch)(*pair) if hasattr(batch, "_fields") else pair
