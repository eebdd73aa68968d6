"""Functions of one batch of any type: forward pass, number of examples and device transfer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from optsmith._errors import TaskError

Batch = Any
Forward = Callable[[nn.Module, Batch], Any]
"""A function that calls a model with a batch and returns the output."""


def is_pair(batch: Batch) -> bool:
    """Return whether a batch is a pair (inputs, targets): a tuple or list of length two."""
    return isinstance(batch, tuple | list) and len(batch) == 2


def call_model(model: nn.Module, batch: Batch) -> Any:
    """Return a model's output for the inputs of a pair, or for the whole batch otherwise.

    A mapping, such as the `BatchEncoding` of a tokenizer, is passed as keyword arguments.
    """
    if is_pair(batch):
        return model(batch[0])
    return model(**batch) if isinstance(batch, Mapping) else model(batch)


def target_of(batch: Batch) -> Any:
    """Return the targets of a pair, or the whole batch otherwise."""
    return batch[1] if is_pair(batch) else batch


def size_of(batch: Batch) -> int:
    """Return the number of examples in a batch.

    The first that applies: the length of a tensor; the attribute `num_graphs`, `batch_size` or
    `num_nodes`; the size of the first item of a mapping or sequence that has one, starting with
    the targets of a pair; `len`.

    Raises:
        TaskError: None of these applies.
    """
    size = _size(batch)
    if size is None:
        raise TaskError(
            f"a batch of type {type(batch).__name__} has no size: it needs a tensor, a length, or"
            " an attribute num_graphs, batch_size or num_nodes"
        )
    return size


def _size(item: Any) -> int | None:
    if isinstance(item, Tensor):
        return len(item) if item.ndim else None
    for name in ("num_graphs", "batch_size", "num_nodes"):
        size = getattr(item, name, None)
        if isinstance(size, int):
            return size
    if isinstance(item, Mapping | tuple | list):
        parts = list(item.values()) if isinstance(item, Mapping) else list(item)
        if is_pair(item):
            parts.reverse()  # the targets first
        for part in parts:
            if (size := _size(part)) is not None:
                return size
    has_length = hasattr(item, "__len__") and not isinstance(item, Mapping | str)
    return len(item) if has_length else None


def map_tensors(function: Callable[[Tensor], Tensor], item: Any) -> Any:
    """Return nested mappings, tuples and lists with a function applied to every tensor."""
    if isinstance(item, Tensor):
        return function(item)
    return _map_items(lambda part: map_tensors(function, part), item)


def to_device(item: Any, device: torch.device) -> Any:
    """Return a batch moved to a device; the original is not modified."""
    if isinstance(item, Tensor):
        return item.to(device, non_blocking=True)
    if callable(getattr(item, "to", None)):
        # A copy, because the batches of transformers and PyTorch Geometric move in place.
        return copy.copy(item).to(device)
    return _map_items(lambda part: to_device(part, device), item)


def _map_items(function: Callable[[Any], Any], item: Any) -> Any:
    """Return a mapping, tuple or list with a function applied to its items; others unchanged."""
    if isinstance(item, Mapping):
        return {key: function(value) for key, value in item.items()}
    if isinstance(item, tuple | list):
        parts = [function(part) for part in item]
        return type(item)(*parts) if hasattr(item, "_fields") else type(item)(parts)
    return item
