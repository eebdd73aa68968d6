"""Batches of every type: forward pass, number of examples, device transfer."""

from __future__ import annotations

from collections import UserDict, namedtuple

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from optsmith import Rule, Run, Task, TaskError
from optsmith.task._batch import size_of, to_device
from optsmith.testing import check_task
from optsmith.training import train_once
from optsmith.training.stacked._check import NotStackableError, footprint
from tasks_for_tests import PROTOCOL, line_data

CPU = torch.device("cpu")
Named = namedtuple("Named", "x y weight")
Two = namedtuple("Two", "x y")


class Encoding(UserDict):
    """Like the BatchEncoding of transformers, whose `to` works in place."""

    moved = 0

    def to(self, device):
        self.data = {key: value.to(device) for key, value in self.data.items()}
        Encoding.moved += 1
        return self


class Graph:
    """Like the Data of PyTorch Geometric, whose length is not the number of examples."""

    def __init__(self, x, y):
        self.x, self.y, self.device = x, y, None

    @property
    def num_nodes(self):
        return len(self.x)

    def __len__(self):
        return 2

    def to(self, device):
        self.device = device
        return self


class ByKey(nn.Linear):
    def __init__(self):
        super().__init__(4, 1)

    def forward(self, x, y):
        return {"loss": mse_loss(super().forward(x), y)}


class ByAttribute(nn.Linear):
    def __init__(self):
        super().__init__(4, 1)

    def forward(self, batch):
        return super().forward(batch.x)


class First(nn.Linear):
    def __init__(self):
        super().__init__(4, 1)

    def forward(self, batch):
        return super().forward(batch[0])


def plain() -> nn.Linear:
    return nn.Linear(4, 1)


def own_loss(output, batch):
    return output["loss"]


def attribute_loss(output, batch):
    return mse_loss(output, batch.y)


def triple_loss(output, batch):
    return mse_loss(output, batch[1])


def sum_loss(output, batch):
    return (output - batch.sum(dim=1, keepdim=True)).square().mean()


X, Y = line_data(48)
TEST_X, TEST_Y = line_data(20, 1)
PIECES = [slice(0, 8), slice(8, 12), slice(12, 20)]  # of unequal sizes


def pieces(kind):
    """Return training data in equal batches and test data in unequal batches."""
    train = [kind(X[i : i + 16], Y[i : i + 16]) for i in (0, 16, 32)]
    return train, [kind(TEST_X[piece], TEST_Y[piece]) for piece in PIECES]


KINDS = {
    "pair": (plain, mse_loss, lambda x, y: (x, y)),
    "list": (plain, mse_loss, lambda x, y: [x, y]),
    "named pair": (plain, mse_loss, Two),
    "dict": (ByKey, own_loss, lambda x, y: {"x": x, "y": y}),
    "encoding": (ByKey, own_loss, lambda x, y: Encoding(x=x, y=y)),
    "graph": (ByAttribute, attribute_loss, Graph),
    "named tuple": (ByAttribute, attribute_loss, lambda x, y: Named(x, y, 1.0)),
    "triple": (First, triple_loss, lambda x, y: (x, y, torch.ones(len(x)))),
    "tensor": (plain, sum_loss, lambda x, y: x),
}


TRAINING = {"protocol": PROTOCOL, "objective": "training loss"}


def run(**changes) -> Run:
    return Run(Rule.parse("g"), **{"lr": 0.05, "seed": 5, "steps": 9, **changes})


def outcome(model, data, loss, test, **settings):
    task = Task.from_module(model, data, loss, test=test, **TRAINING, **settings)
    trace = train_once(task, run(final=True))
    return [value for _, value in trace.signal], trace.metrics


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_batch_trains_as_a_pair_does(kind):
    model, loss, make = KINDS[kind]
    train, test = pieces(lambda x, y: (x, y))
    expected = outcome(plain, train, mse_loss, test)
    train, test = pieces(make)
    signal, metrics = outcome(model, train, loss, test)
    assert signal == pytest.approx(expected[0], rel=1e-6)
    assert metrics == pytest.approx(expected[1], rel=1e-6)


def test_the_mean_over_unequal_batches_is_that_over_examples():
    parts = outcome(plain, [(X, Y)], mse_loss, pieces(lambda x, y: (x, y))[1])[1]
    whole = outcome(plain, [(X, Y)], mse_loss, (TEST_X, TEST_Y))[1]
    assert parts == pytest.approx(whole, rel=1e-5)
    graphs = outcome(ByAttribute, [Graph(X, Y)], attribute_loss, pieces(Graph)[1])[1]
    assert graphs == pytest.approx(whole, rel=1e-5)


MEMORY = {
    "dict": (ByKey, own_loss, lambda x, y: {"x": x, "y": y}),
    "encoding": (ByKey, own_loss, lambda x, y: Encoding(x=x, y=y)),
    "named tuple": (ByAttribute, attribute_loss, lambda x, y: Named(x, y, torch.ones(len(x)))),
    "triple": (First, triple_loss, lambda x, y: (x, y, torch.ones(len(x)))),
    "tensor": (plain, sum_loss, lambda x, y: x),
}


@pytest.mark.parametrize("kind", MEMORY)
def test_tensors_in_memory_are_batched_alike_in_every_form(kind):
    model, loss, make = MEMORY[kind]
    expected = outcome(plain, (X, Y), mse_loss, (TEST_X, TEST_Y), batch_size=16)
    found = outcome(model, make(X, Y), loss, make(TEST_X, TEST_Y), batch_size=16, measure_size=7)
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    assert found[1] == pytest.approx(expected[1], rel=1e-5)


class Shifted(nn.Linear):
    def __init__(self):
        super().__init__(4, 1)

    def forward(self, inputs):
        return super().forward(inputs["x"]) + inputs["shift"]


def test_mappings_of_inputs_beside_targets_are_batched_too():
    def inputs(x):
        return {"x": x, "shift": torch.zeros(len(x), 1)}

    expected = outcome(plain, (X, Y), mse_loss, (TEST_X, TEST_Y), batch_size=16)
    found = outcome(Shifted, (inputs(X), Y), mse_loss, (inputs(TEST_X), TEST_Y), batch_size=16)
    assert found[0] == pytest.approx(expected[0], rel=1e-6)


def test_a_model_may_be_called_in_a_way_of_its_own():
    train, test = pieces(Graph)
    expected = outcome(ByAttribute, train, attribute_loss, test)
    found = outcome(plain, train, attribute_loss, test, forward=lambda model, b: model(b.x))
    assert found == expected


def test_validation_and_metric_see_the_same_batches():
    def close(output, batch):
        return ((output - batch.y).abs() < 0.5).float().mean()

    train, test = pieces(Graph)
    task = Task.from_module(
        ByAttribute, train, attribute_loss, test=test, validation=test, metric=close,
        objective="validation loss", protocol=PROTOCOL,
    )  # fmt: skip
    trace = train_once(task, run(steps=60, lr=0.2, final=True))
    assert trace.metrics["test close"] > 0.9
    task = Task.from_module(
        ByAttribute, train, attribute_loss, test=test, validation=test, metric=close,
        protocol=PROTOCOL,
    )  # fmt: skip
    measured = train_once(task, run(steps=60, lr=0.2, final=True)).signal[-1][1]
    assert measured == trace.metrics["test close"]


def test_loaders_of_dictionaries():
    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(X)

        def __getitem__(self, i):
            return {"x": X[i], "y": Y[i]}

    task = Task.from_module(
        ByKey, DataLoader(Rows(), batch_size=10, shuffle=True), own_loss, **TRAINING
    )
    check_task(task)


@pytest.mark.parametrize("kind", ["encoding", "graph", "named tuple", "tensor"])
def test_tasks_with_such_batches_keep_the_contract(kind):
    model, loss, make = KINDS[kind]
    if kind in ("encoding", "tensor"):  # in memory, so that seeds differ in their order
        check_task(Task.from_module(model, make(X, Y), loss, **TRAINING, batch_size=16))
    else:
        train, test = pieces(make)
        check_task(Task.from_module(model, train, loss, test=test, **TRAINING))


def test_batches_move_to_a_device_and_leave_the_user_s_own_alone():
    meta = torch.device("meta")
    named = to_device(Named(torch.ones(2), [torch.ones(3)], "text"), meta)
    assert isinstance(named, Named)
    assert (named.x.device, named.y[0].device, named.weight) == (meta, meta, "text")
    graph, encoding = Graph(X, Y), Encoding(x=X)
    assert to_device(graph, meta).device == meta
    assert graph.device is None
    assert to_device(encoding, meta)["x"].device == meta
    assert encoding["x"].device == CPU
    assert to_device({"a": (torch.ones(1), 3)}, meta)["a"][0].device == meta


def test_sizes():
    class Batched:
        num_graphs, num_nodes = 3, 40

    assert size_of(torch.ones(5, 2)) == 5
    assert size_of((torch.ones(1, 9), torch.ones(7))) == 7
    assert size_of((torch.ones(7), torch.tensor(1.0))) == 7  # targets without a size
    assert size_of({"text": ["a", "b"], "x": torch.ones(4, 2)}) == 2
    assert size_of(Encoding(x=torch.ones(4))) == 4
    assert size_of(Graph(torch.ones(6, 1), None)) == 6
    assert size_of(Batched()) == 3
    with pytest.raises(TaskError, match="has no size"):
        size_of(3.0)


def test_a_loader_of_tensor_datasets_of_three():
    loader = DataLoader(TensorDataset(X, Y, torch.ones(48)), batch_size=16)
    assert len(outcome(First, loader, triple_loss, None)[0]) == 9


def test_only_pairs_of_tensors_are_stacked():
    for data, model, loss in (
        ({"x": X, "y": Y}, ByKey, own_loss),
        (X, plain, sum_loss),
    ):
        task = Task.from_module(model, data, loss, **TRAINING)
        with pytest.raises(NotStackableError, match="not pairs of tensors"):
            footprint(task, CPU)
    forward = Task.from_module(
        plain, (X, Y), mse_loss, **TRAINING, forward=lambda model, batch: model(batch[0])
    )
    with pytest.raises(NotStackableError, match="forward overrides how"):
        footprint(forward, CPU)


BAD = {
    "a tensor for every key": {"x": X, "name": "rows"},
    r"different lengths: \[48, 48, 3\]": (X, Y, torch.ones(3)),
    "48 inputs but 3 targets": (X, torch.ones(3)),
    "not 0-dim tensors": torch.tensor(1.0),
    "data is empty": torch.ones(0, 4),
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_no_data_is_said(message):
    with pytest.raises(TaskError, match=message):
        Task.from_module(plain, BAD[message], mse_loss, protocol=PROTOCOL)
