"""Mistakes in a task of a module that are found before a search, and sound tasks."""

from __future__ import annotations

import warnings

import pytest
import torch
from preflight_tasks import INDEPENDENT, TEST, X, Y, check, module_task
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset, random_split
from torch.utils.data import Subset as Rows

from optsmith import Metric, TaskError
from optsmith.study._watch import crossed
from tasks_for_tests import line_data


def loaders(*parts, **settings):
    return [DataLoader(part, batch_size=16, **settings) for part in parts]


DATASET = TensorDataset(X, Y)


FIRST_HALF, SECOND_HALF = Rows(DATASET, range(32)), Rows(DATASET, range(32, 64))
EQUAL = "the {0} data of the task mine is its {1} data: give examples that are not in the {1} data"
BROADCAST = (
    "the targets of the task mine broadcast against the outputs: shapes (16,) and (16, 1) give"
    " (16, 16); reshape the targets to (16, 1)"
)
EMPTY = (
    "the DataLoader of the {} data of the task mine has no batches: its batch size is 100, its"
    " dataset has 64 examples, and drop_last is True"
)
MODULES = {
    "targets broadcast": ({"data": (X, Y[:, 0])}, BROADCAST),
    "targets broadcast in l1": ({"data": (X, Y[:, 0]), "loss": F.l1_loss}, BROADCAST),
    "targets broadcast in huber": ({"data": (X, Y[:, 0]), "loss": nn.HuberLoss()}, BROADCAST),
    "targets broadcast in a loss of one's own": (
        {"data": (X, Y[:, 0]), "loss": lambda out, y: (out - y).abs().mean()},
        BROADCAST,
    ),
    "counts broadcast": (
        {"data": (X, Y[:, 0].round().long()), "loss": lambda out, y: ((y - out) ** 2).mean()},
        BROADCAST,
    ),
    "outputs broadcast": (
        {"module": lambda: nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))},
        "the targets of the task mine broadcast against the outputs: shapes (16, 1) and (16,) give"
        " (16, 16); reshape the targets to (16,)",
    ),
    "batches beyond the data": (
        {"batch_size": 65},
        "the batch size of the task mine is 65, but there are only 64 training examples: give"
        " batch_size=64 or less",
    ),
    "an empty loader": (
        {"data": DataLoader(DATASET, batch_size=100, drop_last=True)},
        EMPTY.format("training"),
    ),
    "an empty test loader": (
        {"test": DataLoader(DATASET, batch_size=100, drop_last=True)},
        EMPTY.format("test"),
    ),
    "test is training": ({"test": (X, Y)}, EQUAL.format("test", "training")),
    "test is a copy of training": (
        {"test": (X.clone(), Y.clone())},
        EQUAL.format("test", "training"),
    ),
    "validation is training": (
        {"validation": (X, Y), "test": TEST, "objective": None},
        EQUAL.format("validation", "training"),
    ),
    "test is validation": (
        {"validation": TEST, "test": TEST, "objective": None},
        EQUAL.format("test", "validation"),
    ),
    "loaders of one dataset": (
        {"data": loaders(DATASET, shuffle=True)[0], "test": loaders(DATASET)[0]},
        EQUAL.format("test", "training"),
    ),
    "a loader of the tensors": ({"test": loaders(DATASET)[0]}, EQUAL.format("test", "training")),
    "loaders of one half": (
        {"data": loaders(FIRST_HALF)[0], "test": loaders(Rows(DATASET, range(32)))[0]},
        EQUAL.format("test", "training"),
    ),
    "no parameter in the loss": (
        {"loss": lambda out, y: (y**2).mean()},
        INDEPENDENT.format("it has no gradient"),
    ),
    "detached": (
        {"loss": lambda out, y: F.mse_loss(out.detach(), y)},
        INDEPENDENT.format("it has no gradient"),
    ),
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_mistake_in_a_module_task_is_one_sentence(name):
    settings, sentence = MODULES[name]
    with pytest.raises(TaskError) as caught:
        check(module_task(**settings))
    assert str(caught.value) == sentence


def test_a_refit_that_contains_only_the_test_data():
    task = module_task(
        validation=line_data(16, 5),
        test=TEST,
        refit=TEST,
        objective=None,
        metric=Metric("error", F.mse_loss, direction="minimize"),
    )
    with pytest.raises(TaskError, match=r"is the training data of its final runs \(refit\)"):
        check(task)


# --- what is not refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ((16, 1), (16,), (16, 16)),
        ((16,), (16, 1), (16, 16)),
        ((8, 3, 1, 1), (8, 3), (8, 3, 8, 3)),
        ((1, 16), (16, 1), (16, 16)),
        ((16, 1), (16, 1), None),
        ((16, 3), (16, 1), None),
        ((16, 3), (16,), None),
        ((16, 3), (3,), None),
        ((1,), (1, 1), None),
        ((), (16,), None),
        ((0, 1), (0,), None),
    ],
)
def test_shapes_that_broadcast_to_more_than_either(one, other, both):
    assert crossed(one, other) == both
    if both is not None:
        assert torch.broadcast_shapes(one, other) == both


def images(*shape):
    return torch.randn(64, *shape, generator=torch.Generator().manual_seed(3))


CLASSES = torch.arange(64) % 5


def squeezed(out, y):
    return F.mse_loss(out.squeeze(1), y)


def pairwise(out, y):
    """A ranking loss, which compares every pair of examples on purpose."""
    signs = torch.sign(y.unsqueeze(1) - y.unsqueeze(0))
    return F.softplus(-signs * (out - out.T)).mean()


def contrastive(out, y):
    same = (y[:, None] == y).float()
    return F.binary_cross_entropy_with_logits(out @ out.T, same)


def quantiles(out, y):
    levels = torch.tensor([0.1, 0.5, 0.9])
    return torch.maximum(levels * (y - out), (levels - 1) * (y - out)).mean()


SOUND = {
    "classes": (lambda: nn.Linear(4, 5), (X, CLASSES), F.cross_entropy),
    "one class index per row, one logit": (lambda: nn.Linear(4, 1), (X, 0 * CLASSES),
                                           lambda out, y: F.cross_entropy(out, y) + out.mean()),
    "one-hot": (lambda: nn.Linear(4, 5), (X, F.one_hot(CLASSES).float()), F.cross_entropy),
    "soft targets": (lambda: nn.Linear(4, 5), (X, images(5).softmax(1)),
                     lambda out, y: F.kl_div(out.log_softmax(1), y, reduction="batchmean")),
    "regression": (lambda: nn.Linear(4, 1), (X, Y), F.mse_loss),
    "several outputs": (lambda: nn.Linear(4, 3), (X, images(3)), F.smooth_l1_loss),
    "squeezed in the loss": (lambda: nn.Linear(4, 1), (X, Y[:, 0]), squeezed),
    "flattened outputs": (lambda: nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)), (X, Y[:, 0]),
                          F.mse_loss),
    "indexed in the loss": (lambda: nn.Linear(4, 1), (X, Y[:, 0]),
                            lambda out, y: ((out[:, 0] - y) ** 2).mean()),
    "a logit per row": (lambda: nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)),
                        (X, (CLASSES % 2).float()), F.binary_cross_entropy_with_logits),
    "ranking": (lambda: nn.Linear(4, 1), (X, Y[:, 0]), pairwise),
    "contrastive": (lambda: nn.Linear(4, 3), (X, CLASSES), contrastive),
    "quantiles": (lambda: nn.Linear(4, 3), (X, Y), quantiles),
    "sequences of classes": (lambda: nn.Linear(2, 7), (images(6, 2), (images(6) > 0).long()),
                             lambda out, y: F.cross_entropy(out.transpose(1, 2), y)),
    "sequences as long as a batch": (lambda: nn.Linear(2, 1), (images(16, 2), images(16, 1)),
                                     F.mse_loss),
    "sequences squeezed in the loss": (lambda: nn.Linear(2, 1), (images(16, 2), images(16)),
                                       lambda out, y: F.mse_loss(out.squeeze(-1), y)),
    "images": (lambda: nn.Conv2d(1, 1, 3, padding=1), (images(1, 5, 5), images(1, 5, 5)),
               F.mse_loss),
    "one mean over the batch": (lambda: nn.Linear(4, 1), (X, Y[:, 0]),
                                lambda out, y: (out.mean() - y.mean()) ** 2),
    "gaussian": (lambda: nn.Linear(4, 2), (X, Y[:, 0]),
                 lambda out, y: F.gaussian_nll_loss(out[:, 0], y, out[:, 1].exp())),
    "autoencoder": (lambda: nn.Linear(4, 4), X, lambda out, batch: F.mse_loss(out, batch)),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_sound_module_tasks_pass(name):
    module, data, loss = SOUND[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = check(module_task(module, data, loss))
    assert found.notes == ()
    assert found.untrained == found.untrained


def test_sets_of_their_own_pass():
    parts = random_split(DATASET, [40, 12, 12], torch.Generator().manual_seed(0))
    train, validation, test = loaders(*parts)
    check(module_task(data=train, validation=validation, test=test, objective=None))
    samplers = [SubsetRandomSampler(range(40)), SubsetRandomSampler(range(40, 64))]
    train, test = (DataLoader(DATASET, batch_size=8, sampler=s) for s in samplers)
    check(module_task(data=train, test=test))
    check(module_task(data=[(X, Y)], test=[TEST]))
    check(module_task(objective=None))  # held-out data is split off
