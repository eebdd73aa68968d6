"""The scenarios of torch's own test_optim.py, with rules."""

import copy
import sys
import types
import unittest

import pytest
import torch
from runs import (
    ELEMENT,
    MODERN,
    REPRESENTATIVES,
    STEPS,
    assert_near,
    assert_same,
    clones,
    gradient,
    normal,
    optimizer,
    parameters,
    run,
)
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode

from optsmith import RuleOptimizer
from optsmith.optim import _eager, _machine

several = pytest.mark.parametrize("name", ["mnist1", "rte"])
several_and_modern = pytest.mark.parametrize("name", ["mnist1", "rte", *MODERN])
SCHEDULES = [
    [],
    [lambda opt: StepLR(opt, gamma=0.9, step_size=10)],
    [lambda opt: StepLR(opt, gamma=0.9, step_size=10), lambda opt: ReduceLROnPlateau(opt)],
]


def problem(strided=False, scale=0.01):
    """Return weight, bias and a function that computes the loss and its gradients.

    Gradients are well below 1, as in training: their cubes stay small.
    """
    weight, bias, data = normal(10, 5, 2, seed=1), normal(10, 2, seed=2), normal(5, seed=3)
    weight, bias = weight[..., 0], bias[..., 0]
    if not strided:
        weight, bias = weight.contiguous(), bias.contiguous()
    weight, bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)

    def loss():
        weight.grad = bias.grad = None
        value = scale * (weight.mv(data) + bias).pow(2).sum()
        value.backward()
        return value.detach()

    return weight, bias, loss


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("name", [*REPRESENTATIVES, *MODERN])
def test_goes_in_the_right_direction(name, maximize):
    for strided in (False, True):
        weight, bias, loss = problem(strided)
        opt = optimizer([weight, bias], name, lr=1e-3, maximize=maximize)
        before = loss()
        for _ in range(30):
            opt.step(loss)
        assert (loss() > before) if maximize else (loss() < before)


@pytest.mark.parametrize("schedules", SCHEDULES, ids=len)
@several_and_modern
def test_groups_with_schedules_go_in_the_right_direction(name, schedules):
    weight, bias, loss = problem()
    opt = optimizer([{"params": [weight]}, {"params": [bias], "lr": 1e-2}], name, lr=1e-3)
    made = [schedule(opt) for schedule in schedules]
    before = loss()
    for _ in range(40):
        opt.step(loss)
        for schedule in made:
            schedule.step(*([loss()] if isinstance(schedule, ReduceLROnPlateau) else []))
    assert loss() < before


@several_and_modern
def test_group_with_lr_zero_stays(name):
    weight, bias, loss = problem()
    opt = optimizer([{"params": [weight]}, {"params": [bias], "lr": 0.0}], name, lr=1e-2)
    before = copy.deepcopy([weight, bias])
    for _ in range(5):
        opt.step(loss)
    assert torch.equal(bias, before[1])
    assert not torch.equal(weight, before[0])


@pytest.mark.parametrize("decoupled", [False, True])
def test_weight_decay_of_a_group(decoupled):
    params = parameters(shapes=((3,), (3,)))
    groups = [{"params": params[:1], "weight_decay": 0.5}, {"params": params[1:]}]
    opt = optimizer(groups, "g", lr=0.1, decoupled=decoupled)
    start = copy.deepcopy(params)
    for p in params:
        p.grad = torch.zeros_like(p)
    opt.step()
    assert_near([p.detach() for p in params], [0.95 * start[0].detach(), start[1].detach()])


def test_a_step_without_gradients_does_nothing():
    params = parameters()
    before = copy.deepcopy(params)
    opt = optimizer(params, "adam", weight_decay=0.1)
    opt.step()
    assert_same(params, before)
    assert not opt.state


# Rules that are 0 for a gradient of 0.
AT_REST = ["sgd", "momentum", "nesterov", "adam", "rmsprop", "lion", "conv3", "conv4", "mnist1"]


@pytest.mark.parametrize("name", [*AT_REST, "cora", "wnli", "ppi", "products2", "addsign-ld"])
def test_a_step_of_zero_gradients_does_nothing(name):
    params = parameters()
    before = copy.deepcopy(params)
    opt = optimizer(params, name)
    for _ in range(3):
        for p in params:
            p.grad = torch.zeros_like(p)
        opt.step()
    assert_same(params, before)


@several_and_modern
def test_changing_the_way_in_mid_run(name):
    params = parameters()
    others = clones(params)
    opt, plain = optimizer(params, name), optimizer(others, name)
    for t in range(1, 7):
        opt.param_groups[0]["foreach"] = t % 2 == 0
        assert_near(run(opt, [t]), run(plain, [t]))


# --- saving ---------------------------------------------------------------------------------------


@several_and_modern
def test_state_dict_is_the_same_for_equal_runs(name):
    opts = [optimizer(parameters(), name) for _ in range(2)]
    for opt in opts:
        run(opt, range(1, 4))
    assert_same(*(opt.state_dict() for opt in opts))
    saved = copy.deepcopy(opts[0].state_dict())
    opts[1].load_state_dict(saved)
    run(opts[1], [4])
    assert_same(opts[0].state_dict(), saved)  # loading shares nothing


@pytest.mark.parametrize("new", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("old", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["mnist1", *MODERN])
def test_state_can_be_loaded_for_another_precision(name, old, new):
    opt = optimizer(parameters(old), name)
    run(opt, range(1, 4))
    other = optimizer(parameters(new), name)
    other.load_state_dict(opt.state_dict())
    run(other, [4])
    wide = torch.float64 if new == torch.float64 else torch.float32
    states = [s for state in other.state.values() for s in state.values()]
    assert {s.dtype for s in states if isinstance(s, torch.Tensor)} == {wide}


def test_state_dict_hooks():
    opt = optimizer(parameters(torch.bfloat16), "momentum")
    run(opt, [1])
    calls = []
    opt.register_state_dict_pre_hook(lambda o: calls.append("save"))
    opt.register_state_dict_post_hook(lambda o, s: calls.append("saved"))
    opt.register_load_state_dict_post_hook(lambda o: calls.append("loaded"))

    def halve(_, state_dict):
        changed = copy.deepcopy(state_dict)
        for state in changed["state"].values():
            state["momentum"] /= 2
        return changed

    opt.register_load_state_dict_pre_hook(halve)
    before = [opt.state[p]["momentum"].clone() for p in opt.param_groups[0]["params"]]
    for _ in range(2):
        opt.load_state_dict(opt.state_dict())
    after = [opt.state[p]["momentum"] for p in opt.param_groups[0]["params"]]
    assert_same(after, [m / 4 for m in before])
    assert calls == ["save", "saved", "loaded"] * 2


def test_named_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1)).double()
    named = optimizer(model.named_parameters(), "adam")
    names = [name for name, _ in model.named_parameters()]
    assert named.param_groups[0]["param_names"] == names
    plain = optimizer(model.parameters(), "adam")
    run(named, [1])
    plain.load_state_dict(named.state_dict())
    assert plain.param_groups[0]["param_names"] == names
    run(plain, [2])
    named.load_state_dict(optimizer(model.parameters(), "adam").state_dict())
    assert named.param_groups[0]["param_names"] == names
    mixed = list(model.named_parameters())[:1] + list(model.parameters())[1:]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer(mixed, "adam")


def test_state_in_another_order_by_names():
    params = parameters(shapes=((2,), (3,)))
    opt = optimizer([("a", params[0]), ("b", params[1])], "adam")
    run(opt, [1, 2])
    others = clones(params)
    other = optimizer([("b", others[1]), ("a", others[0])], "adam")

    def by_name(target, state_dict):
        state_dict = copy.deepcopy(state_dict)
        places = {n: i for i, n in enumerate(state_dict["param_groups"][0]["param_names"])}
        wanted = target.param_groups[0]["param_names"]
        state_dict["state"] = {i: state_dict["state"][places[n]] for i, n in enumerate(wanted)}
        state_dict["param_groups"][0]["param_names"] = wanted
        return state_dict

    other.register_load_state_dict_pre_hook(by_name)
    other.load_state_dict(opt.state_dict())
    for i, p in enumerate(others):
        p.grad = gradient(p, i, 3)
    other.step()
    run(opt, [3])
    assert_same(params, others)


def test_state_of_other_shapes_is_refused():
    opt = optimizer(parameters(), "adam")
    for groups in ([{"params": parameters()[:2]}], [{"params": [p]} for p in parameters()]):
        with pytest.raises(ValueError, match="parameter group"):
            opt.load_state_dict(optimizer(groups, "adam").state_dict())


# --- hooks, memory --------------------------------------------------------------------------------


def test_global_hooks_run_around_the_own():
    opt = optimizer(parameters(), "conv3")
    calls = []
    handles = [
        register_optimizer_step_pre_hook(lambda *_: calls.append(1)),
        opt.register_step_pre_hook(lambda *_: calls.append(2)),
        opt.register_step_post_hook(lambda *_: calls.append(3)),
        register_optimizer_step_post_hook(lambda *_: calls.append(4)),
    ]
    run(opt, [1])
    for handle in handles:
        handle.remove()
    run(opt, [2])
    assert sorted(calls) == [1, 2, 3, 4]
    assert calls.index(2) < calls.index(3)


class Largest(TorchDispatchMode):
    """Records the number of elements of the largest new tensor."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        known = {a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)}
        if "out" in (kwargs or {}):
            known.add(kwargs["out"].untyped_storage().data_ptr())
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in known:
            self.elements = max(self.elements, result.numel())
        return result


@pytest.mark.parametrize("name", ["mnist1", "rte", ELEMENT])
def test_memory_of_a_step_is_a_few_chunks(name, monkeypatch):
    monkeypatch.setattr(_machine, "CHUNK", 16)
    monkeypatch.setattr(_eager, "SMALL", 0)
    params = parameters(shapes=((20, 10),))
    opt = optimizer(params, name)
    run(opt, [1])
    with Largest() as largest:
        opt.step()
    assert largest.elements <= 16


# --- torch's generic inputs -----------------------------------------------------------------------


class Products(RuleOptimizer):
    """An optimizer with the constructor that torch's tests expect."""

    def __init__(self, params, lr=1e-3, **settings):
        super().__init__(params, "ld*sign(m1) - Adam", lr, STEPS, **settings)


@pytest.fixture(scope="module")
def upstream():
    """Return torch's module of optimizer infos, which imports a package that may be missing."""
    missing = "expecttest" not in sys.modules
    if missing:
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
    try:
        yield pytest.importorskip("torch.testing._internal.common_optimizers")
    finally:
        if missing:
            del sys.modules["expecttest"]
        # The import freezes these flags for the whole process.
        setattr(torch.backends, "__allow_nonbracketed_mutation_flag", True)


@pytest.fixture(scope="module")
def info(upstream):
    def errors(device, dtype):
        bad = [({"lr": -1.0}, "lr must be"), ({"weight_decay": -1.0}, "weight_decay must be")]
        return upstream.get_error_inputs_for_all_optims(device, dtype) + [
            upstream.ErrorOptimizerInput(
                upstream.OptimizerInput(None, settings, str(settings)),
                error_type=ValueError,
                error_regex=message,
            )
            for settings, message in bad
        ]

    def inputs(device, dtype=None):
        known = ("lr", "weight_decay", "maximize")
        generic = upstream.optim_inputs_func_sgd(device) + upstream.optim_inputs_func_adam(device)
        return [i for i in generic if set(i.kwargs) <= set(known)]

    return upstream.OptimizerInfo(
        Products,
        optim_inputs_func=inputs,
        optim_error_inputs_func=errors,
        supported_impls=("foreach",),
        supports_complex=False,
    )


@pytest.mark.slow
def test_torchs_error_inputs(info):
    for error in info.optim_error_inputs_func("cpu", torch.float32):
        bad = error.optimizer_error_input
        params = parameters() if bad.params is None else bad.params
        words = {"Tensor lr must be 1-element": "one element"}
        expected = words.get(error.error_regex, error.error_regex)
        if issubclass(error.error_type, Warning):
            with pytest.warns(error.error_type, match=expected):
                info.optim_cls(params, **bad.kwargs)
        else:
            with pytest.raises(error.error_type, match=expected):
                info.optim_cls(params, **bad.kwargs)


@pytest.mark.slow
def test_torchs_inputs(info):
    inputs = info.optim_inputs_func("cpu")
    assert len(inputs) > 5
    for given in inputs:
        for foreach in (False, True):
            weight, bias, loss = problem(scale=1.0)  # not outweighed by the weight decay
            opt = info.optim_cls([weight, bias], **given.kwargs, foreach=foreach)
            schedules = [make(opt) for make in info.scheduler_inputs[0]]
            before = loss()
            for _ in range(20):
                opt.step(loss)
                for schedule in schedules:
                    schedule.step(*([loss()] if isinstance(schedule, ReduceLROnPlateau) else []))
            assert (loss() > before) == given.kwargs.get("maximize", False), given.desc
