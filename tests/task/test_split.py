"""Division of data into training, validation and test data, and shares of training data."""

from __future__ import annotations

import pickle
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
)

from optsmith import Rule, Run, Task, TaskError
from optsmith.task import find_task
from optsmith.testing import check_task
from optsmith.training import train_once
from tasks_for_tests import PROTOCOL, bowl, line

CPU = torch.device("cpu")


def numbered(count=200, classes=4):
    """Return examples that are their own index, with unevenly frequent classes."""
    numbers = torch.arange(count, dtype=torch.float32)[:, None]
    return numbers, (torch.arange(count) % (2 * classes)).clamp(max=classes - 1)


def task_of(data, **settings) -> Task:
    net = partial(nn.Linear, 1, 4)
    return Task.from_module(net, data, cross_entropy, **{"protocol": PROTOCOL} | settings)


def rows(source) -> list[int]:
    """Return the examples of a source, in their order in evaluation."""
    return [int(x) for batch in source.once(CPU) for x in batch[0].flatten()]


def trained_on(source, seed=1, steps=8) -> list[int]:
    torch.manual_seed(seed)
    batches = source.train(Run(Rule.parse("g"), 0.1, seed, steps))
    return [int(x) for batch in batches for x in batch[0].flatten()]


SOURCES = {
    "tensors": lambda x, y: (x, y),
    "loader": lambda x, y: DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True),
    "part of a dataset": lambda x, y: DataLoader(Subset(TensorDataset(x, y), range(len(x)))),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_a_tenth_each_is_split_off(kind):
    x, y = numbered()
    task = task_of(SOURCES[kind](x, y))
    train, validation, test = map(rows, (task.data, task.validation, task.test))
    assert sorted(train + validation + test) == list(range(200))
    assert (len(validation), len(test)) == (20, 20)
    for part in (validation, test):
        assert y[part].bincount().tolist() == pytest.approx((y.bincount() / 10).tolist(), abs=1)
        assert part != sorted(part)  # so that the first rows are a random sample
    assert task.notes == (
        "10 % of the 200 examples are validation data, 10 % test data (split with a fixed seed,"
        " stratified by class)",
    )
    again = task_of(SOURCES[kind](x, y))
    assert rows(again.validation) == validation


@pytest.mark.parametrize("given", ["validation", "test"])
def test_what_is_given_is_not_split_off(given):
    x, y = numbered()
    other = numbered(12)
    task = task_of((x, y), **{given: other})
    missing = {"validation": "test", "test": "validation"}[given]
    assert rows(getattr(task, given)) == list(range(12))
    assert sorted(rows(task.data) + rows(getattr(task, missing))) == list(range(200))
    assert len(rows(task.data)) == 180
    assert f"10 % of the 200 examples are {missing} data (" in task.notes[0]


def test_nothing_is_split_off_if_both_are_given_or_for_the_training_loss():
    x, y = numbered()
    both = task_of((x, y), validation=numbered(9), test=numbered(9))
    plain = task_of((x, y), objective="training loss")
    for task in (both, plain):
        assert rows(task.data) == list(range(200))
        assert task.notes == ()
    assert plain.test is None
    assert plain.metrics == {}


def test_classes_that_are_too_small_and_other_targets_are_not_stratified():
    x, y = numbered(1200)
    y[7] = 4
    assert task_of((x, y)).notes[0].startswith("10 % of the 1 200 examples")
    for targets in (y, x):
        assert "stratified" not in task_of((x, targets)).notes[0]
    assert "stratified" not in task_of({"x": x, "y": y}).notes[0]


class Images(Dataset):
    """A dataset like those of torchvision, which keep their labels in `targets`."""

    def __init__(self, targets):
        self.targets = targets

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return torch.tensor([float(i)]), int(self.targets[i])


def test_labels_are_found_where_datasets_keep_them():
    y = numbered()[1]
    for targets in (y, y.tolist(), y.numpy()):
        assert "stratified" in task_of(DataLoader(Images(targets))).notes[0]
    assert "stratified" not in task_of(DataLoader(Images([str(int(c)) for c in y]))).notes[0]


def shifted(examples):
    x, y = torch.utils.data.default_collate(examples)
    return x + 1000, y


def test_loaders_keep_their_settings():
    data = TensorDataset(*numbered())
    loader = DataLoader(data, 48, shuffle=True, drop_last=True, collate_fn=shifted, timeout=0)
    task = task_of(loader)
    first, second = trained_on(task.data, 1, 3), trained_on(task.data, 2, 3)
    assert len(first) == len(set(first)) == 3 * 48  # of 160 examples: incomplete batches dropped
    assert first != second
    assert min(first) >= 1000
    assert len(rows(task.validation)) == 20  # no batch is dropped in evaluation
    in_order = task_of(DataLoader(data, 10))
    assert trained_on(in_order.data, steps=16) == sorted(rows(in_order.data))
    repeated = task_of(DataLoader(data, 10, sampler=RandomSampler(data, True, 30)))
    assert len(list(repeated.data.loader)) == 3
    assert repeated.data.loader.sampler.replacement


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.ones(1), 0


class Odd(DataLoader):
    def __iter__(self):
        return super().__iter__()


DATA = TensorDataset(*numbered())
BAD = {
    "data of type list cannot be split: give validation= and test=, or": [numbered()],
    "whose dataset has no indices cannot be split": DataLoader(Endless()),
    "with its own sampler cannot": DataLoader(DATA, sampler=SubsetRandomSampler(range(9))),
    "with its own batch_sampler cannot": DataLoader(
        DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), 4, False)
    ),
    "of type Odd, with its own iteration": Odd(DATA),
    '49 examples are too few .* or choose objective="training loss"': numbered(49),
}


@pytest.mark.parametrize("message", BAD)
def test_what_cannot_be_split_is_said(message):
    with pytest.raises(TaskError, match=message):
        task_of(BAD[message])
    assert task_of(BAD[message], objective="training loss").notes == ()


def test_only_what_is_missing_is_asked_for():
    with pytest.raises(TaskError, match="cannot be split: give test=, or choose"):
        task_of([numbered()], validation=numbered())
    assert task_of([numbered()], validation=numbered(), test=numbered()).notes == ()


@pytest.mark.parametrize("kind", SOURCES)
def test_a_share_of_the_training_data(kind):
    x, y = numbered()
    task = task_of(SOURCES[kind](x, y))
    part = task.subset(0.25)
    kept = sorted(rows(part.data))
    assert set(kept) < set(rows(task.data))
    assert len(kept) == 40
    assert y[kept].bincount().tolist() == pytest.approx((y.bincount() / 5).tolist(), abs=1)
    assert rows(part.validation) == rows(task.validation)
    assert part.notes == (*task.notes, "25 % of the training data are used")
    assert sorted(rows(task.subset(0.25).data)) == kept
    assert len(rows(task.data)) == 160  # the task itself is not changed
    assert set(rows(task.subset(1).data)) == set(rows(task.data))


def test_a_share_of_tasks_that_refit():
    x, y = numbered()
    task = task_of((x[:150], y[:150]), validation=(x[150:], y[150:]), refit=(x, y), test=(x, y))
    data = task.subset(0.1).data
    assert (len(rows(data.held)), len(rows(data.whole))) == (15, 20)


def test_tasks_whose_data_cannot_be_divided_say_so():
    for task in (bowl(), find_task("attack")):
        with pytest.raises(TaskError, match="has a training loop of its own"):
            task.subset(0.5)
    with pytest.raises(TaskError, match="data of type list cannot be split"):
        task_of([numbered()], objective="training loss").subset(0.5)
    for share in (0, 1.5):
        with pytest.raises(TaskError, match=f"above 0 and at most 1, not {share}"):
            line().subset(share)


@pytest.mark.parametrize("kind", SOURCES)
def test_tasks_that_split_keep_the_contract(kind):
    x = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
    data = SOURCES[kind](x, x.sum(dim=1, keepdim=True))
    check_task(Task.from_module(partial(nn.Linear, 4, 1), data, mse_loss, protocol=PROTOCOL))


def test_measuring_does_not_change_the_training():
    """A DataLoader draws from torch's generator, as does a model with dropout."""

    def final_weights(**settings):
        made = []

        def make():
            made.append(nn.Sequential(nn.Linear(1, 4), nn.Dropout()))
            return made[-1]

        x, y = numbered(60)
        held = DataLoader(TensorDataset(x, y), 10)
        train = DataLoader(TensorDataset(x / 60, y), 10, shuffle=True)
        task = Task.from_module(
            make, train, cross_entropy, validation=held, test=held, protocol=PROTOCOL, **settings
        )
        train_once(task, Run(Rule.parse("g"), 0.1, 3, 12))
        return made[-1][0].weight

    often, seldom = final_weights(), final_weights(check_every=12)
    assert torch.equal(often, seldom)


def test_samples_are_not_pickled_with_their_data():
    source = task_of(numbered(400)).data
    whole = len(pickle.dumps(source))
    list(source.once(CPU, 30))
    assert len(pickle.dumps(source)) == whole
