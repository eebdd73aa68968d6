"""Mistakes in a task that are found before a search, and sound tasks that are not refused."""

from __future__ import annotations

import random
import warnings
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset, random_split
from torch.utils.data import Subset as Rows

import optsmith
from optsmith import Metric, Objective, Task, TaskError
from optsmith._errors import TaskFailure
from optsmith.study._preflight import knows_roles, preflight
from optsmith.study._watch import crossed
from tasks_for_tests import PROTOCOL, bowl, line, line_data

X, Y = line_data()
TEST = line_data(32, 1)
TRAINING = {"objective": "training loss"}
G = optsmith.Rule.parse("g")


def check(task):
    return preflight(task, PROTOCOL, "cpu")


def module_task(module=lambda: nn.Linear(4, 1), data=(X, Y), loss=F.mse_loss, **settings) -> Task:
    defaults = {"batch_size": 16, "protocol": PROTOCOL, "name": "mine", **TRAINING}
    return Task.from_module(module, data, loss, **defaults | settings)


def own_loop(body) -> Task:
    return Task.from_function(body, protocol=PROTOCOL, name="mine")


# --- loops of one's own that are wrong ------------------------------------------------------------


def no_optimizer(run):
    weights = torch.randn(3, requires_grad=True)
    for _ in range(run.steps):
        yield (weights**2).sum().detach()


def no_step(run):
    weights = torch.randn(3, requires_grad=True)
    run.optimizer([weights])
    for _ in range(run.steps):
        loss = (weights**2).sum()
        loss.backward()
        yield loss.detach()


def own_step(run):
    weights = torch.randn(3, requires_grad=True)
    run.optimizer([weights])
    own = torch.optim.Adam([weights])
    for _ in range(run.steps):
        own.zero_grad()
        loss = (weights**2).sum()
        loss.backward()
        own.step()
        yield loss.detach()


def stepping(loss_of, after=lambda optimizer, weights: None, params=None):
    def train(run):
        weights = torch.randn(3, requires_grad=True)
        optimizer = run.optimizer([weights] if params is None else params())
        for _ in range(run.steps):
            optimizer.zero_grad()
            loss = loss_of(weights)
            loss.backward()
            optimizer.step()
            after(optimizer, weights)
            yield loss.detach()

    return train


def square(weights):
    return (weights**2).sum()


def frozen(run):
    weights = torch.randn(3, requires_grad=True)
    start = weights.detach().clone()
    optimizer = run.optimizer([weights])
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = square(weights)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            weights.copy_(start)
        yield loss.detach()


def zero_rate(run):
    weights = torch.randn(3, requires_grad=True)
    optimizer = run.optimizer([weights])
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = square(weights)
        loss.backward()
        optimizer.step()
        yield loss.detach()


def unseeded(run):
    weights = torch.randn(3, requires_grad=True)
    optimizer = run.optimizer([weights])
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = square(weights) * (1 + random.random())
        loss.backward()
        optimizer.step()
        yield loss.detach()


def shared_model():
    weights = torch.ones(3, requires_grad=True)

    def train(run):
        optimizer = run.optimizer([weights])
        for _ in range(run.steps):
            optimizer.zero_grad()
            loss = square(weights)
            loss.backward()
            optimizer.step()
            yield loss.detach()

    return train


def too_short(run):
    yield from list(stepping(square)(run))[:-1]


def broadcasting(run):
    model = nn.Linear(4, 1)
    optimizer = run.optimizer(model)
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = F.mse_loss(model(X), Y[:, 0])
        loss.backward()
        optimizer.step()
        yield loss.detach()


def subtracting(run):
    model = nn.Linear(4, 1)
    optimizer = run.optimizer(model)
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = ((Y[:, 0] - model(X)) ** 2).mean()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def radial(run):
    """Subtract as many centres as there are examples, which are parameters."""
    centres = nn.Parameter(torch.linspace(-1, 1, len(X)))
    out = nn.Linear(len(X), 1)
    optimizer = run.optimizer([centres, *out.parameters()])
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = ((out(torch.exp(-((X[:, :1] - centres) ** 2))) - Y) ** 2).mean()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def odd_metrics(value):
    def train(run):
        yield from stepping(square)(run)
        return value if run.final else None

    return train


INDEPENDENT = (
    "the loss of the task mine does not depend on its parameters: {}; compute the loss from the"
    " model's output, without detach, item or no_grad, and call backward"
)
LOOPS = {
    "no optimizer": (
        no_optimizer,
        "the task mine never calls run.optimizer: get its optimizer from run.optimizer(model),"
        " which is the rule under test",
    ),
    "no step": (
        no_step,
        "the task mine never steps the optimizer from run.optimizer: call its step() before each"
        " yield",
    ),
    "another optimizer": (
        own_step,
        "the task mine never steps the optimizer from run.optimizer, but steps one of its own"
        " (Adam): call its step() before each yield",
    ),
    "detached": (
        stepping(lambda w: square(w.detach())),
        INDEPENDENT.format("it has no gradient"),
    ),
    "other parameters": (
        stepping(square, params=lambda: [torch.ones(2, requires_grad=True)]),
        INDEPENDENT.format("the parameters given to run.optimizer have no gradients"),
    ),
    "times zero": (
        stepping(lambda w: 0 * square(w) + 1),
        INDEPENDENT.format("all gradients are zero"),
    ),
    "weights set back": (
        frozen,
        "the weights of the task mine are the same after 2 steps: the loop must not set them or"
        " the learning rate back after optimizer.step()",
    ),
    "rate of zero": (
        zero_rate,
        "the weights of the task mine are the same after 2 steps: the loop must not set them or"
        " the learning rate back after optimizer.step()",
    ),
    "not finite": (
        stepping(lambda w: square(w) * float("nan")),
        "the task mine starts with a signal that is not finite: nan",
    ),
    "wrong number of steps": (
        too_short,
        "the task mine must yield 2 steps with a signal at the last; it yielded 1, and its last"
        " signal was at step 1",
    ),
    "broadcast": (
        broadcasting,
        "the targets of the task mine broadcast against the outputs: shapes (64,) and (64, 1) give"
        " (64, 64); reshape the targets to (64, 1)",
    ),
    "broadcast by a subtraction": (
        subtracting,
        "the targets of the task mine broadcast against the outputs: shapes (64,) and (64, 1) give"
        " (64, 64); reshape the targets to (64, 1)",
    ),
    "metrics without names": (
        odd_metrics(0.5),
        'the task mine must return its metrics by name, such as {"accuracy": 0.9}, or nothing,'
        " not 0.5",
    ),
    "a metric that is a list": (
        odd_metrics({"accuracy": [1, 2]}),
        'the metric "accuracy" of the task mine must be one number, not [1, 2]',
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_mistake_in_a_loop_is_one_sentence(name):
    body, sentence = LOOPS[name]
    with pytest.raises(TaskError) as caught:
        check(own_loop(body))
    assert str(caught.value) == sentence
    assert not isinstance(caught.value, TaskFailure)


@pytest.mark.parametrize("body", [unseeded, shared_model()], ids=["unseeded", "shared model"])
def test_equal_runs_must_be_equal(body):
    with pytest.raises(TaskError, match="equal runs of the task mine give different signals") as e:
        check(own_loop(body))
    assert str(e.value).endswith(
        "make the model and everything random anew in each run, with torch's generator or a"
        " generator seeded with run.seed"
    )


# --- module tasks that are wrong ------------------------------------------------------------------


def loaders(*parts, **settings):
    return [DataLoader(part, batch_size=16, **settings) for part in parts]


DATASET = TensorDataset(X, Y)


def test_a_subtraction_of_parameters_may_broadcast():
    check(own_loop(radial))


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


def warm_up(run):
    weights = torch.randn(3, requires_grad=True)
    optimizer = run.optimizer([weights])
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 5))
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = square(weights)
        loss.backward()
        optimizer.step()
        schedule.step()
        yield loss.detach()


def closures(run):
    weights = torch.randn(3, requires_grad=True)
    optimizer = run.optimizer([weights])

    def closure():
        optimizer.zero_grad()
        loss = square(weights)
        loss.backward()
        return loss

    for _ in range(run.steps):
        yield optimizer.step(closure).detach()


def two_optimizers(run):
    pair = [torch.randn(3, requires_grad=True) for _ in range(2)]
    optimizers = [run.optimizer([weights]) for weights in pair]
    own = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    for step in range(run.steps):
        loss = sum(map(square, pair))
        optimizers[step % 2].zero_grad()
        loss.backward()
        optimizers[step % 2].step()
        own.step()
        yield loss.item()


@pytest.mark.parametrize("body", [warm_up, closures, two_optimizers, stepping(square)])
def test_sound_loops_pass(body):
    assert check(own_loop(body)).notes == ()


def test_sets_of_their_own_pass():
    parts = random_split(DATASET, [40, 12, 12], torch.Generator().manual_seed(0))
    train, validation, test = loaders(*parts)
    check(module_task(data=train, validation=validation, test=test, objective=None))
    samplers = [SubsetRandomSampler(range(40)), SubsetRandomSampler(range(40, 64))]
    train, test = (DataLoader(DATASET, batch_size=8, sampler=s) for s in samplers)
    check(module_task(data=train, test=test))
    check(module_task(data=[(X, Y)], test=[TEST]))
    check(module_task(objective=None))  # held-out data is split off


# --- what it returns ------------------------------------------------------------------------------


def test_doing_nothing_does_not_beat_an_untrained_model_and_training_does():
    protocol = PROTOCOL.replace(score_seeds=4, threshold=None)
    for task in (bowl(), line(**TRAINING), line()):
        found = preflight(task, protocol, "cpu").untrained
        nothing, trained = (
            optsmith.evaluation.evaluate_recipe(task, G, protocol.replace(lrs=lrs).search_stage)
            for lrs in ((1e-12,), (0.1,))
        )
        every = [point.score for e in (nothing, trained) for point in e.grid]
        assert max(nothing.score, every[0]) == pytest.approx(found, rel=0.25)
        assert max(trained.score, every[1]) < found


def test_the_score_of_an_untrained_model_has_the_objective_s_direction():
    def train(run):
        yield from (-value for value in stepping(square)(run))

    task = Task.from_function(
        train, protocol=PROTOCOL, name="mine", objective=Objective("gain", "maximize", "last")
    )
    assert check(task).untrained < 0


def test_a_preflight_is_repeatable_and_leaves_nothing_behind():
    state = torch.get_rng_state()
    first = check(line())
    assert check(line()) == first
    assert torch.equal(torch.get_rng_state(), state)


def test_small_batches_by_default_and_equal_seeds_are_remarks():
    weights = torch.ones(1, 4)

    def same():
        model = nn.Linear(4, 1, bias=False)
        model.weight.data.copy_(weights)
        return model

    settings = {"module": same, "protocol": PROTOCOL, "name": "mine", **TRAINING}
    found = check(Task.from_module(data=(X, Y + 1), loss=F.mse_loss, **settings))
    assert found.notes[0] == "each batch is the whole training data, 64 examples"
    assert len(found.notes) in (1, 2)  # the order of the sum may matter to the last digit

    def fixed(run):
        return stepping(lambda w: square(w - w.detach() + 1))(run)

    assert check(own_loop(lambda run: (yield from fixed(run)))).notes == (
        "all seeds give the same signal: draw the initial weights and the order of the data with"
        " torch's generator or run.seed, or runs with other seeds show nothing new",
    )


def test_small_differences_are_a_remark():
    count = iter(range(1000))

    def noisy(run):
        yield from (value * (1 + 1e-7 * next(count)) for value in stepping(square)(run))

    (note,) = check(own_loop(noisy)).notes
    assert note.startswith("equal runs differ slightly (")


# --- errors ---------------------------------------------------------------------------------------


def broken(run):
    yield from stepping(lambda w: square(w) + torch.zeros(2) @ torch.zeros(3))(run)


def broken_metric(out, y):
    return {}["no such key"]


def test_an_exception_has_its_traceback_and_its_cause():
    with pytest.raises(TaskFailure, match=r"^the task mine does not run: RuntimeError: ") as caught:
        check(own_loop(broken))
    failure = caught.value
    assert str(failure).endswith("(in a run of 2 steps)")
    assert isinstance(failure.__cause__, RuntimeError)
    lines = failure.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "test_preflight.py" in lines[1]
    assert lines[-1].startswith("RuntimeError: ")
    assert "optsmith/" not in failure.traceback


def test_an_error_in_a_metric_is_found_before_the_search():
    task = module_task(test=TEST, metric=broken_metric)
    with pytest.raises(TaskFailure, match="KeyError: 'no such key'") as caught:
        check(task)
    assert 'return {}["no such key"]' in caught.value.traceback


def test_metrics_are_tried_out_on_a_few_examples():
    sizes = []

    def metric(out, y):
        sizes.append(len(y))
        return 0.0

    check(module_task(test=line_data(500, 1), metric=metric))
    assert sizes
    assert set(sizes) == {64}
    with pytest.raises(TaskError, match="the test data of the task mine is empty"):
        check(module_task(test=[]))


def test_a_lack_of_memory_is_not_called_a_bug():
    def train(run):
        raise torch.OutOfMemoryError("CUDA out of memory")
        yield

    with pytest.raises(TaskError, match="does not fit into the memory of cpu: OutOfMemory") as e:
        check(own_loop(train))
    assert not isinstance(e.value, TaskFailure)


def test_other_warnings_are_issued_as_usual():
    def train(run):
        warnings.warn("mine", DeprecationWarning, stacklevel=1)
        yield from stepping(square)(run)

    with pytest.warns(DeprecationWarning, match="mine"):
        check(own_loop(train))


def test_a_task_that_passes_bare_parameters_is_searched_without_roles(tmp_path):
    def loop(run, whole):
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        optimizer = run.optimizer(model if whole else model.parameters())
        for _ in range(run.steps):
            optimizer.zero_grad()
            loss = model(torch.ones(2, 4)).square().mean()
            loss.backward()
            optimizer.step()
            yield loss.item()

    for whole in (True, False):
        task = Task.from_function(partial(loop, whole=whole), steps=20, name="mine")
        protocol = task.preset("smoke").protocol
        assert knows_roles(task, protocol, "cpu") == whole
