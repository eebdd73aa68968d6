"""One batch of any kind: how a model is called with it, its size, and its device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from optsmith._errors import TaskError

Batch = Any
Forward = Callable[[nn.Module, Batch], Any]
"""Calls a model with a batch."""


def is_pair(batch: Batch) -> bool:
    """Return whether a batch is (inputs, targets): a tuple or list of two."""
    return isinstance(batch, tuple | list) and len(batch) == 2


def call_model(model: nn.Module, batch: Batch) -> Any:
    """Return a model's output: of the inputs of a pair, else of the whole batch.

    A mapping, such as the `BatchEncoding` of a tokenizer, is passed as keyword arguments.
    """
    if is_pair(batch):
        return model(batch[0])
    return model(**batch) if isinstance(batch, Mapping) else model(batch)


def target_of(batch: Batch) -> Any:
    """Return what outputs are compared with: the targets of a pair, else the whole batch."""
    return batch[1] if is_pair(batch) else batch


def size_of(batch: Batch) -> int:
    """Return the number of examples in a batch.

    That of its targets, if it is a pair; its `num_graphs`, `batch_size` or `num_nodes`, if it has
    one; the length of a tensor; the size of the first item of a mapping or sequence that has one;
    its `len`.

    Raises:
        TaskError: It has none of these.
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
    """Return mappings, tuples, named tuples and lists with every tensor replaced."""
    if isinstance(item, Tensor):
        return function(item)
    if isinstance(item, Mapping):
        return {key: map_tensors(function, value) for key, value in item.items()}
    if isinstance(item, tuple | list):
        parts = [map_tensors(function, part) for part in item]
        return type(item)(*parts) if hasattr(item, "_fields") else type(item)(parts)
    return item


def to_device(item: Any, device: torch.device) -> Any:
    """Return a batch on a device; the batch itself is left as it is."""
    if isinstance(item, Tensor):
        return item.to(device, non_blocking=True)
    if callable(getattr(item, "to", None)):
        # A copy, as those of transformers and PyTorch Geometric move in place.
        return copy.copy(item).to(device)
    if isinstance(item, Mapping):
        return {key: to_device(value, device) for key, value in item.items()}
    if isinstance(item, tuple | list):
        parts = [to_device(part, device) for part in item]
        return type(item)(*parts) if hasattr(item, "_fields") else type(item)(parts)
    return item
