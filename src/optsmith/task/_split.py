"""Division of a task's data into training, validation and test data, and into shares."""

from __future__ import annotations

import torch
from torch import Tensor

from optsmith._errors import TaskError
from optsmith.task._batches import RefitBatches
from optsmith.task._source import SPLIT_SEED, Batches, NotDivisibleError

SHARE = 0.1
"""Fraction of the examples that are split off for each of validation and test data."""

FEWEST = 50
"""Fewest examples that are split."""

ADVICE = 'or choose objective="training loss"'


def split(
    data: Batches, validation: Batches | None, test: Batches | None
) -> tuple[Batches, Batches, Batches, tuple[str, ...]]:
    """Return training, validation and test data, and notes that say what was split off.

    Validation and test data that are not given are each a tenth of the training data.

    Raises:
        TaskError: The data cannot be split, or has too few examples.
    """
    missing = [n for n, d in (("validation", validation), ("test", test)) if d is None]
    if validation is not None and test is not None:
        return data, validation, test, ()
    settings = " and ".join(f"{name}=" for name in missing)
    try:
        examples = data.examples()
    except NotDivisibleError as error:
        raise TaskError(f"{error}: give {settings}, {ADVICE}") from None
    if examples.count < FEWEST:
        raise TaskError(
            f"{examples.count} examples are too few to split off {' and '.join(missing)} data:"
            f" give {settings}, {ADVICE}"
        )
    size = round(SHARE * examples.count)
    rest, parts, stratified = torch.arange(examples.count), {}, True
    for name in reversed(missing):
        rest, taken, by_class = _take(rest, examples.labels, size)
        parts[name] = data.part(taken, training=False)
        stratified = stratified and by_class
    found = {"validation": validation, "test": test} | parts
    words = ", ".join(
        f"{SHARE:.0%} {'' if i else f'of the {_spaced(examples.count)} examples are '}{name} data"
        for i, name in enumerate(missing)
    ).replace("%", " %")
    how = "split with a fixed seed" + (", stratified by class" if stratified else "")
    training = data.part(rest, training=True)
    return training, found["validation"], found["test"], (f"{words} ({how})",)  # type: ignore[return-value]


def share_of(data: Batches, share: float) -> Batches:
    """Return a fixed random share of training data, stratified by class.

    Raises:
        TaskError: The share is invalid, or the data cannot be divided.
    """
    if not 0 < share <= 1:
        raise TaskError(f"a share of the data must be above 0 and at most 1, not {share}")
    if isinstance(data, RefitBatches):
        return RefitBatches(share_of(data.held, share), share_of(data.whole, share))
    try:
        examples = data.examples()
    except NotDivisibleError as error:
        raise TaskError(str(error)) from None
    size = max(1, round(share * examples.count))
    if size == examples.count:
        return data
    _, taken, _ = _take(torch.arange(examples.count), examples.labels, size)
    return data.part(taken, training=True)


def _take(rows: Tensor, labels: Tensor | None, size: int) -> tuple[Tensor, Tensor, bool]:
    """Return the remaining rows, in order, `size` random ones, and whether they are stratified."""
    from sklearn.model_selection import train_test_split  # takes a second to import

    def divide(classes: Tensor | None) -> tuple[Tensor, Tensor]:
        rest, taken = train_test_split(
            rows.numpy(),
            test_size=size,
            random_state=SPLIT_SEED,
            stratify=None if classes is None else classes[rows].numpy(),
        )
        return torch.from_numpy(rest).sort().values, torch.from_numpy(taken)

    if labels is not None:
        try:
            return *divide(labels), True
        except ValueError:  # a class has too few examples
            pass
    return *divide(None), False


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")
