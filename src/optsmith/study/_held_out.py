"""Checks of the data of a module task: its size, and that held-out data is not training data."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, Subset, TensorDataset

from optsmith._errors import TaskError
from optsmith.task import LoaderBatches, ModuleTask, RefitBatches, TensorBatches

DEFAULT_BATCH = inspect.signature(ModuleTask).parameters["batch_size"].default


def check_data(task: ModuleTask) -> list[str]:
    """Check the data of a task without training, and return remarks on it.

    Raises:
        TaskError: There are fewer examples than in a batch, or a data set is used twice.
    """
    notes = _check_sizes(task)
    training = task.data
    whole = training.whole if isinstance(training, RefitBatches) else None
    named = {
        "training": training.held if isinstance(training, RefitBatches) else training,
        "validation": task.validation,
        "test": task.test,
    }
    pairs = [("validation", "training"), ("test", "training"), ("test", "validation")]
    for one, other in pairs:
        if _is_same(named[one], named[other]):
            raise TaskError(
                f"the {one} data of the task {task.name} is its {other} data: give examples that"
                f" are not in the {other} data"
            )
    if _is_same(task.test, whole):
        raise TaskError(
            f"the test data of the task {task.name} is the training data of its final runs (refit):"
            " give examples that are not in it"
        )
    return notes


def _check_sizes(task: ModuleTask) -> list[str]:
    data = task.data.held if isinstance(task.data, RefitBatches) else task.data
    if isinstance(data, TensorBatches) and task.batch_size > data.count:
        if task.batch_size != DEFAULT_BATCH:
            raise TaskError(
                f"the batch size of the task {task.name} is {task.batch_size}, but there are only"
                f" {data.count} training examples: give batch_size={data.count} or less"
            )
        return [f"each batch is the whole training data, {data.count} examples"]
    for name, source in (("training", data), ("validation", task.validation), ("test", task.test)):
        loader = source.loader if isinstance(source, LoaderBatches) else None
        if isinstance(loader, DataLoader) and _is_empty(loader):
            raise TaskError(
                f"the DataLoader of the {name} data of the task {task.name} has no batches: its"
                f" batch size is {loader.batch_size}, its dataset has {_length(loader)} examples,"
                f" and drop_last is {loader.drop_last}"
            )
    return []


def _length(loader: DataLoader[Any]) -> int:
    return len(loader.dataset)  # type: ignore[arg-type]


def _is_empty(loader: DataLoader[Any]) -> bool:
    try:
        return len(loader) == 0 and _length(loader) >= 0
    except TypeError:  # an iterable dataset has no length
        return False


# --- equal data -----------------------------------------------------------------------------------


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two sources have the same examples in the same order; False if unknown."""
    if one is None or other is None:
        return False
    if one is other:
        return True
    return _equal(_content(one), _content(other))


def _content(source: Any) -> Any:
    """Return what a source reads: tensors, or (dataset, indices), or a loader of another kind."""
    if isinstance(source, TensorBatches):
        return _tensors(source.columns)
    loader = source.loader if isinstance(source, LoaderBatches) else source
    if not isinstance(loader, DataLoader):
        return loader
    indices = _indices(loader.sampler)
    if indices is None and type(loader.sampler) not in (SequentialSampler, RandomSampler):
        return loader  # a sampler of the user's own: which examples it draws is not known
    dataset: Any = loader.dataset
    while isinstance(dataset, Subset):
        inner = list(dataset.indices)
        indices = inner if indices is None else [inner[i] for i in indices]
        dataset = dataset.dataset
    if isinstance(dataset, TensorDataset):
        rows = slice(None) if indices is None else torch.as_tensor(indices)
        return [tensor[rows] for tensor in dataset.tensors]
    return dataset, indices


def _indices(sampler: Any) -> list[int] | None:
    """Return the indices of a sampler that has some, such as a SubsetRandomSampler."""
    found = getattr(sampler, "indices", None)
    return [int(i) for i in found] if isinstance(found, Sequence | Tensor) else None


def _tensors(columns: Any) -> list[Tensor]:
    if isinstance(columns, Tensor):
        return [columns]
    parts = columns.values() if isinstance(columns, Mapping) else columns
    return [tensor for part in parts for tensor in _tensors(part)]


def _equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, tuple) and isinstance(other, tuple):  # dataset and indices
        return one[0] is other[0] and _as_set(one[1]) == _as_set(other[1])
    if not (isinstance(one, list) and isinstance(other, list) and one and len(one) == len(other)):
        return False
    return all(_same_item(a, b) for a, b in zip(one, other, strict=True))


def _as_set(indices: list[int] | None) -> frozenset[int] | None:
    return None if indices is None else frozenset(indices)


def _same_item(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.shape == other.shape and torch.equal(one, other.to(one.device))
    return one is other  # a batch of a list of batches
