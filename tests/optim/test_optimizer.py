"""The behaviour of torch's optimizers that users rely on."""

import copy
import io
import pickle
import warnings

import pytest
import torch
from runs import (
    BY_ROLE,
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
from torch.optim import lr_scheduler

from optsmith import OptsmithError, RuleError, RuleOptimizer, zoo

every_rule = pytest.mark.parametrize("name", [*REPRESENTATIVES, *MODERN])
two_rules = pytest.mark.parametrize("name", ["adam", "citeseer"])
"""Enough where only state, decays and masks of the rule matter."""
two_and_modern = pytest.mark.parametrize("name", ["adam", "citeseer", *MODERN])


def through_file(thing):
    """Return what `torch.load` reads after `torch.save`."""
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def values(params):
    return [p.detach().clone() for p in params]


# --- parameter groups ----------------------------------------------------------------------------


@two_and_modern
def test_groups_have_their_own_settings(name):
    settings = [{"lr": 0.1}, {"lr": 0.01, "weight_decay": 0.3}, {"weight_decay": 0.1}, {}]
    settings[3] |= {"maximize": True}
    together = parameters()
    alone = clones(together)
    groups = [{"params": [p], **s} for p, s in zip(together, settings, strict=True)]
    opt = optimizer(groups, name, lr=0.05, seed=2)
    # Each optimizer has all parameters, because masks depend on the index of a parameter.
    opts = [optimizer(alone, name, **{"lr": 0.05, "seed": 2, **s}) for s in settings]
    for t in range(1, 7):
        for i, (p, q) in enumerate(zip(together, alone, strict=True)):
            p.grad = gradient(p, i, t)
            for r in alone:
                r.grad = None
            q.grad = p.grad.clone()
            opts[i].step()
        opt.step()
        assert_near(values(together), values(alone))


@two_and_modern
def test_group_added_in_mid_run(name):
    params = parameters()
    opt = optimizer([{"params": params[:2]}], name, seed=1)
    run(opt, range(1, 4))
    # torch and the rules without roles ignore the role.
    opt.add_param_group({"params": params[2:], "lr": 0.1, "role": "vector"})
    assert [group["t"] for group in opt.param_groups] == [3, 3]
    late = clones(params)
    other = optimizer([{"params": late[:2]}, {"params": late[2:], "lr": 0.1}], name, seed=1)
    other.load_state_dict(copy.deepcopy(opt.state_dict()))
    run(opt, range(4, 8))
    run(other, range(4, 8))
    assert_same(values(params), values(late))
    assert [opt.state[p]["step"] for p in params] == [7, 7, 4, 4]


def test_time_of_a_late_group_goes_on():
    params = parameters()
    opt = optimizer(params[:2], "ld", lr=1.0, total_steps=9)
    run(opt, range(1, 5))
    opt.add_param_group({"params": params[2:]})
    before = values(params)
    run(opt, [5])
    assert_near(values(params), [p - 0.5 for p in before])


# --- saving --------------------------------------------------------------------------------------


@every_rule
def test_saved_state_goes_on_to_the_bit(name):
    params = [*parameters(torch.float32), *parameters(torch.bfloat16, seed=1)]
    opt = optimizer(params, name, lr=0.1, seed=11, weight_decay=0.1)
    run(opt, range(1, 6))
    saved, others = through_file(opt.state_dict()), clones(params)
    run(opt, range(6, 11))
    other = optimizer(others, name, lr=5.0)
    other.load_state_dict(saved)
    run(other, range(6, 11))
    assert_same(values(params), values(others))
    assert_same(opt.state_dict(), other.state_dict())


@two_and_modern
def test_copies_go_on_to_the_bit(name):
    params = parameters(torch.float32)
    opt = optimizer(params, name, seed=3)
    run(opt, range(1, 4))
    twins = copy.deepcopy(opt), pickle.loads(pickle.dumps(opt))
    history = run(opt, range(4, 7))
    for twin in twins:
        assert twin.rule == opt.rule
        assert {*vars(twin)} >= {name for name in vars(opt) if not name.startswith("_")}
        assert_same(run(twin, range(4, 7)), history)


def test_state_of_another_rule_is_refused():
    params = parameters()
    opt = optimizer(params, "adam")
    run(opt, [1])
    before = copy.deepcopy(opt.state_dict())
    others = [optimizer(clones(params), "drop(m3 + 7)"), torch.optim.Adam(clones(params))]
    for other in others:
        with pytest.raises(OptsmithError, match="saved with the rule"):
            opt.load_state_dict(other.state_dict())
    assert_same(opt.state_dict(), before)


def test_loading_does_not_share_memory():
    params = parameters()
    opt = optimizer(params, "adam")
    run(opt, [1])
    saved = opt.state_dict()
    other = optimizer(clones(params), "adam")
    other.load_state_dict(saved)
    before = copy.deepcopy(other.state_dict())
    run(opt, [2, 3])
    assert_same(other.state_dict(), before)


# --- closures, schedulers, scalers ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["adam", *MODERN])
def test_closure(name):
    p = parameters(shapes=((3, 4),))
    q = clones(p)
    opt, plain = optimizer(p, name), optimizer(q, name)

    def loss(x, with_opt):
        with_opt.zero_grad()
        value = ((x - 1) ** 2).sum()
        value.backward()
        return value.item()

    for _ in range(5):
        expected = loss(q[0], plain)
        plain.step()
        assert torch.is_grad_enabled()
        assert opt.step(lambda: loss(p[0], opt)) == expected
        assert_same(values(p), values(q))


SCHEDULERS = {
    "step": lambda o: lr_scheduler.StepLR(o, 2, 0.5),
    "multistep": lambda o: lr_scheduler.MultiStepLR(o, [2, 4], 0.5),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 8),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "onecycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=9, cycle_momentum=False),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 2, cycle_momentum=False),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "linear": lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=5),
    "polynomial": lambda o: lr_scheduler.PolynomialLR(o, 6),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1), lr_scheduler.ExponentialLR(o, 0.9)], [3]
    ),
    "chained": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.1), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
}


def scheduled(name, make, lr):
    """Return the learning rates, and the results with the scheduler and with rates set by hand."""
    params = parameters(shapes=((3,),))
    by_hand = clones(params)
    opt, plain = optimizer(params, name, lr=lr), optimizer(by_hand, name)
    schedule, rates = make(opt), []
    for t in range(1, 9):
        rates.append(float(opt.param_groups[0]["lr"]))
        plain.param_groups[0]["lr"] = rates[-1]
        run(opt, [t])
        run(plain, [t])
        arguments = [1.0] if isinstance(schedule, lr_scheduler.ReduceLROnPlateau) else []
        schedule.step(*arguments)
    return rates, values(params), values(by_hand)


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_schedulers(kind):
    name = {"cosine": MODERN[0], "linear": MODERN[1], "onecycle": BY_ROLE}.get(kind, "conv3")
    rates, params, by_hand = scheduled(name, SCHEDULERS[kind], 0.1)
    assert len(set(rates)) > 1
    assert_same(params, by_hand)


def test_lr_as_a_tensor():
    rates, params, by_hand = scheduled("conv3", SCHEDULERS["exponential"], torch.tensor(0.1))
    assert rates[1] < rates[0]
    assert_same(params, by_hand)


@pytest.mark.parametrize("name", ["citeseer", *MODERN])
def test_grad_scaler(name):
    params = parameters(torch.float32)
    plain = clones(params)
    opt, other = optimizer(params, name), optimizer(plain, name)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=100)
    for t in range(1, 6):
        factor, bad = scaler.get_scale(), t == 3
        for i, (p, q) in enumerate(zip(params, plain, strict=True)):
            q.grad = gradient(q, i, t)
            p.grad = q.grad * (float("inf") if bad else factor)
        scaler.scale(torch.ones(()))  # as a training loop would
        scaler.step(opt)
        scaler.update()
        if not bad:
            other.step()
        assert_same(values(params), values(plain))
    assert scaler.get_scale() == 8.0
    assert opt.param_groups[0]["t"] == 4


# --- gradients that are not there ----------------------------------------------------------------


@pytest.mark.parametrize("foreach", [False, True])
@two_and_modern
def test_parameters_without_gradient(name, foreach):
    params = parameters()
    params.append(torch.nn.Parameter(torch.ones(2), requires_grad=False))
    alone = clones(params[:1])
    opt = optimizer(params, name, foreach=foreach)
    other = optimizer(alone, name)
    run(opt, [1], params[:1])  # the others have none yet
    run(other, [1])
    before = values(params)
    params[0].grad = None
    opt.step()
    assert_same(values(params), before)
    assert len(opt.state) == 1
    other.param_groups[0]["t"] += 1
    run(opt, [3], params[:4])
    run(other, [3])
    assert_near(values(params[:1]), values(alone))
    assert [opt.state[p]["step"] for p in params[:4]] == [2, 1, 1, 1]
    assert torch.equal(params[4], torch.ones(2))
    assert params[4] not in opt.state


def test_zero_grad():
    params = parameters()
    opt = optimizer(params, "adam")
    run(opt, [1])
    opt.zero_grad(set_to_none=False)
    assert all(p.grad is not None and not p.grad.any() for p in params)
    opt.step()
    opt.zero_grad()
    assert all(p.grad is None for p in params)


@pytest.mark.parametrize("way", [{"foreach": False}, {"foreach": True}, {"compile": True}], ids=str)
@two_rules
def test_empty_parameters(name, way):
    params = parameters(shapes=((0,), (3, 0)))
    opt = optimizer(params, name, **way)
    run(opt, [1, 2])
    assert [opt.state[p]["step"] for p in params] == [2, 2]


@pytest.mark.parametrize("name", ["adam", *MODERN])
def test_gradients_are_left_alone(name):
    params = parameters()
    opt = optimizer(params, name, weight_decay=0.1, maximize=True)
    for t in range(1, 4):
        run(opt, [t])
        assert_same([p.grad for p in params], [gradient(p, i, t) for i, p in enumerate(params)])


# --- maximize, weight decay ----------------------------------------------------------------------


@pytest.mark.parametrize("decay", [0.0, 0.2])
@two_and_modern
def test_maximize_and_weight_decay_change_the_gradient(name, decay):
    params = parameters()
    others = clones(params)
    opt = optimizer(params, name, maximize=True, weight_decay=decay)
    plain = optimizer(others, name)
    for t in range(1, 6):
        run(opt, [t])
        for i, q in enumerate(others):
            q.grad = decay * q.detach() - gradient(q, i, t)
        plain.step()
        assert_near(values(params), values(others))


# --- the end of the run --------------------------------------------------------------------------


def test_beyond_the_end_decays_stay():
    params = parameters(shapes=((4,),))
    opt = optimizer(params, "products1", total_steps=3)
    run(opt, range(1, 4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(opt, range(4, 7))
    assert [str(w.message) for w in caught] == [
        "step 4 is beyond total_steps=3: decays keep their last value"
    ]
    at_end, beyond = (opt._parts[False].program.scalars(t, 3, 1) for t in (3, 6))
    assert_same(*([s for s in scalars if s is not None] for scalars in (at_end, beyond)))


def test_total_steps_is_for_decays():
    params = parameters()
    others = clones(params)
    opts = [RuleOptimizer(params, "Adam", 0.1), optimizer(others, "adam", 0.1, total_steps=2)]
    assert_same(*(run(opt, range(1, 5)) for opt in opts))
    with pytest.raises(OptsmithError, match="depends on time: pass total_steps"):
        RuleOptimizer(parameters(), zoo["products1"].rule, 0.1)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": -0.1}, "lr must be 0 or more, not -0.1"),
        ({"lr": float("nan")}, "lr must be 0 or more, not nan"),
        ({"lr": torch.tensor([0.1, 0.2])}, "one element"),
        ({"weight_decay": -1.0}, "weight_decay must be 0 or more, not -1.0"),
        ({"weight_decay": float("nan")}, "weight_decay"),
        ({"total_steps": 0}, "total_steps must be a positive whole number, not 0"),
        ({"total_steps": 1.5}, "total_steps must be a positive whole number, not 1.5"),
        ({"total_steps": -3}, "total_steps"),
        ({"total_steps": True}, "total_steps"),
        ({"total_steps": float("inf")}, "total_steps"),
        ({"total_steps": float("nan")}, "total_steps"),
        ({"foreach": True, "compile": True}, "choose one"),
    ],
    ids=str,
)
def test_settings_refused(settings, message):
    arguments = {"lr": 0.1, "total_steps": 9, **settings}
    with pytest.raises(OptsmithError, match=message) as caught:
        RuleOptimizer(parameters(), "m1", **arguments)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("text", ["", "m1 +", "momentun", "ld*sign(m1"])
def test_text_refused(text):
    with pytest.raises(RuleError):
        RuleOptimizer(parameters(), text, 0.1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ema(g, 1)", "beta of ema must be a number from 0 to below 1, not 1"),
        ("whiten(g, w, 1)", "beta of whiten must be a number from 0 to below 1, not 1"),
        ("mom(g, 1.5)", "beta of mom must be a number from 0 to 1, not 1.5"),
        ("wu(2)*g", "share of wu must be a number from 0 to 1, not 2"),
        *((f"{x}*g", "needs a tensor, such as g or w") for x in ("orth(ld)", "orth(2)", "rms(k)")),
        ("whiten(g, ld*k)", "whiten needs a tensor, such as g or w"),
        ("hidden(orth(2), g)", "orth needs a tensor"),
        ("hidden(g, m1)", "pass the model, or parameter groups with a role"),
        ("hidden(g)", "hidden takes 2 arguments, not 1"),
    ],
)
def test_modern_rules_refused(text, message):
    with pytest.raises(OptsmithError, match=message) as caught:
        RuleOptimizer(parameters(), text, 0.1, 9)
    assert "\n" not in str(caught.value)


def test_unknown_role_refused():
    groups = [{"params": parameters(), "role": "middle"}]
    with pytest.raises(OptsmithError, match=r'a role must be one of hidden, .*, not "middle"'):
        RuleOptimizer(groups, BY_ROLE, 0.1, 9)
    opt = optimizer(parameters()[:1], BY_ROLE)
    with pytest.raises(OptsmithError, match="pass the model"):
        opt.add_param_group({"params": parameters()})
    assert len(opt.param_groups) == 1


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64])
def test_parameters_refused(dtype):
    with pytest.raises(OptsmithError, match=r"complex|int64"):
        RuleOptimizer([torch.zeros(2, dtype=dtype)], "g", 0.1)


def test_a_refused_group_leaves_no_trace():
    params = parameters()
    opt = optimizer(params[:1], "conv3")
    for bad in ({"lr": -1.0}, {"total_steps": None}, {"weight_decay": -1}):
        with pytest.raises(OptsmithError):
            opt.add_param_group({"params": params[1:], **bad})
    assert len(opt.param_groups) == 1
    opt.add_param_group({"params": params[1:]})
    run(opt, [1, 2])


def test_sparse_gradient_refused():
    params = parameters(shapes=((3,), (4,)))
    opt = optimizer([{"params": [p]} for p in params], "adam")
    run(opt, [1])
    before = values(params), copy.deepcopy(opt.state_dict())
    params[1].grad = gradient(params[1], 1, 2).to_sparse()
    with pytest.raises(OptsmithError, match="sparse gradients are not supported"):
        opt.step()
    assert_same((values(params), opt.state_dict()), before)


# --- the rest ------------------------------------------------------------------------------------


def test_hooks_and_repr():
    params = parameters()
    opt = optimizer(params, "products1")
    calls = []
    opt.register_step_pre_hook(lambda *_: calls.append("before"))
    opt.register_step_post_hook(lambda *_: calls.append("after"))
    run(opt, [1, 2])
    assert calls == ["before", "after"] * 2
    assert "RuleOptimizer" in repr(opt)
    assert str(zoo["products1"].rule) in repr(opt)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@two_and_modern
def test_half_precision_has_wide_state(name, dtype):
    params = parameters(dtype)
    wide = [torch.nn.Parameter(p.detach().float()) for p in params]
    opt, other = optimizer(params, name, lr=0.1), optimizer(wide, name, lr=0.1)
    for t in range(1, 11):
        for q, p in zip(wide, params, strict=True):
            q.data.copy_(p.detach())
        run(opt, [t])
        for q, p in zip(wide, params, strict=True):
            q.grad = p.grad.float()
        other.step()
        assert_same(values(params), [q.detach().to(dtype) for q in wide])
    states = [s for p in params for s in opt.state[p].values() if isinstance(s, torch.Tensor)]
    assert {s.dtype for s in states} <= {torch.float32}


def test_parameters_of_several_precisions():
    params = [torch.nn.Parameter(normal(3, 2, dtype=d)) for d in (torch.float64, torch.bfloat16)]
    alone = [clones([p]) for p in params]
    run(optimizer(params, "adam"), range(1, 4))
    for i, (p, (q,)) in enumerate(zip(params, alone, strict=True)):
        opt = optimizer([q], "adam")
        for t in range(1, 4):
            q.grad = gradient(q, i, t)
            opt.step()
        assert_same(p, q)


def test_long_run_needs_no_more_than_its_steps():
    params = parameters(shapes=((3,),))
    run(optimizer(params, "ld*g"), range(1, STEPS + 1))  # warnings are errors
    assert all(p.isfinite().all() for p in params)
