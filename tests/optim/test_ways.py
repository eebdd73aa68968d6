"""Behaviour of single back ends; what all back ends promise is tested in `test_backends`."""

import random
from functools import partial
from itertools import pairwise

import pytest
import torch
from runs import (
    REPRESENTATIVES,
    SHAPES,
    assert_near,
    assert_same,
    clones,
    gradient,
    optimizer,
    parameters,
    run,
)

from optsmith import OptsmithError, Rule, operators, spaces, zoo
from optsmith.optim import Program, _eager, _fused, _machine
from optsmith.rules import Operator, Parameter, State

EAGER = [{"foreach": True}, {"foreach": False}]  # the default is a mixture of both
FEW_COMPILED = ["adam", "products1", "ppi", "conv2"]
TOTAL = 12


def expected(rule, params, steps=6, lr=0.1, seed=0):
    """Return the parameters after each step, computed by the program."""
    program = Program(rule)
    values = [p.detach().clone() for p in params]
    states, history = [program.init(p) for p in params], []
    for t in range(1, steps + 1):
        gradients = [gradient(p, i, t) for i, p in enumerate(values)]
        updates, states = program.update(gradients, states, t, TOTAL, seed)
        wide = [p.to(u.dtype) - lr * u for p, u in zip(values, updates, strict=True)]
        values = [w.to(p.dtype) for w, p in zip(wide, values, strict=True)]
        history.append(values)
    return history


def check(text, params=None, dtype=torch.float64, seed=0, tolerance=None, **way):
    """Train with a rule and compare the parameters with those computed by the program."""
    rule = zoo[text].rule if text in zoo else Rule.parse(text)
    params = params or parameters(dtype)
    before = expected(rule, params, seed=seed)
    opt = optimizer(params, str(rule), lr=0.1, total_steps=TOTAL, seed=seed, **way)
    assert_near(run(opt, range(1, 7)), before, dtype, **(tolerance or {}))
    for p in params:
        slots = {n: s for n, s in opt.state[p].items() if n != "step"}
        assert tuple(slots) == opt._parts[False].program.slots
        wide = torch.float32 if dtype == torch.bfloat16 else dtype
        assert {s.dtype for s in slots.values()} <= {wide}
        assert all(s.shape == p.shape for s in slots.values())


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(_machine, "CHUNK", 5)


@pytest.fixture
def quick_compile(monkeypatch):
    """Run captured graphs without generating kernels; return the list of graphs."""
    graphs = []

    def capture(graph, examples):
        graphs.append(graph)
        return graph

    monkeypatch.setattr(torch._inductor, "standalone_compile", capture)
    return graphs


# --- real kernels --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FEW_COMPILED)
def test_compiled(name):
    tolerance = {"rtol": 1e-4, "atol": 1e-5}
    check(name, dtype=torch.float32, compile=True, tolerance=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_compiled_in_other_precisions(name, dtype):
    tolerance = {"rtol": 1e-7, "atol": 1e-9} if dtype == torch.float64 else None
    check(name, dtype=dtype, compile=True, tolerance=tolerance)


# --- layouts -------------------------------------------------------------------------------------


def layouts(dtype):
    """Return parameters with various memory layouts."""
    flat = torch.nn.Parameter(gradient(torch.empty(4, 5), 0, 0).to(dtype))
    turned = torch.nn.Parameter(flat.detach().clone().t())
    strided = torch.nn.Parameter(gradient(torch.empty(6, 3, 2), 1, 0).to(dtype)[..., 0])
    last = gradient(torch.empty(2, 3, 4, 5), 2, 0).to(dtype)
    last = torch.nn.Parameter(last.to(memory_format=torch.channels_last))
    return [flat, turned, strided, last]


def odd_gradients(params, t):
    """Set gradients that are expanded, transposed, strided and channels-last."""
    for i, p in enumerate(params):
        p.grad = gradient(p, i, t)
    flat, turned, strided, last = params
    flat.grad = flat.grad[:, :1].expand(4, 5)
    turned.grad = turned.grad.t().contiguous().t() if t % 2 else turned.grad.contiguous()
    strided.grad = torch.stack([strided.grad, strided.grad], 2)[..., 1]
    last.grad = last.grad.to(memory_format=torch.channels_last)


WAYS = [*EAGER, {"compile": True}]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.usefixtures("quick_compile", "small_chunks")
def test_layouts(way, dtype):
    name, params = "rte", layouts(dtype)
    plain = [torch.nn.Parameter(p.detach().clone().contiguous()) for p in params]
    formats = [p.stride() for p in params]
    odd, even = optimizer(params, name, **way), optimizer(plain, name)
    for t in range(1, 6):
        odd_gradients(params, t)
        for p, q in zip(params, plain, strict=True):
            q.grad = p.grad.contiguous()
        odd.step()
        even.step()
        assert_near(params, plain, dtype)
    assert [p.stride() for p in params] == formats


# --- rules that people write ---------------------------------------------------------------------


def branching(x):
    if x.numel() == 0:
        return x
    return x.tanh()


def tanh(x):  # named like torch's, and gives back what it got
    return x if x.shape is not None else -x


def shaped(x):
    return x * x.new_full(x.shape, 2.0)


def scaled(x, y):
    return x * y.abs() if x.shape == y.shape or y.ndim == 0 else x


def lagged(x, a, b, k):
    return (x, a)


def lagged_untraced(x, a, b, k):
    return (x, a) if k >= 1 else (a, x)


def crossed(x, a, b, k):
    return (b + x, a)


def average(x, m, k, beta):
    return (m.lerp(x, 1 - beta),)


def average_untraced(x, m, k, beta):
    return (x,) if k == 1 else (beta * m + (1 - beta) * x,)


def second(x, a, b, k):
    return b - a


def memory(x, m, *rest):
    return m


BETA = (Parameter("beta", 0.8, 0.0, 1.0),)
USERS = [
    Operator("branching", 1, branching),
    Operator("given", 1, tanh),
    Operator("shaped", 1, shaped),
    Operator("scaled", 2, scaled),
    Operator("softsign", 1, lambda x: x / (1 + abs(x))),
    Operator("own_relu", 1, lambda x: torch.where(x > 0, x, 0.0)),
    Operator("leaky", 1, lambda x: torch.where(x > 0, x, 0.1 * x)),
    Operator("positive", 1, lambda x: x.where(x > 0, 0.5)),
    Operator("inside", 1, lambda x: torch.logical_and(x > -1, x < 1)),
    Operator("tenth", 1, lambda x: 0.1 * (x > 0)),
    Operator("outside", 1, lambda x: 1 - (x > -1) * (x < 1)),
    Operator("inverse", 1, lambda x: 1 / x % 3),
    Operator("power_of_two", 1, lambda x: 2**x),
    Operator("ceiling", 1, lambda x: x.clamp(max=0.3)),
    Operator("lag", 1, second, state=State(("new", "old"), lagged)),
    Operator("lag_untraced", 1, second, state=State(("newer", "older"), lagged_untraced)),
    Operator("crossed", 1, second, state=State(("one", "other"), crossed)),
    Operator("own_ema", 1, memory, state=State(("ema",), average), parameters=BETA),
    Operator("ema_untraced", 1, memory, state=State(("e",), average_untraced), parameters=BETA),
    Operator("age", 1, memory, state=State(("age",), lambda x, m, k: (k * 0.5,))),
    Operator("constant", 1, memory, state=State(("c",), lambda x, m, k: (0.5,))),
    Operator(
        "squares", 1, memory, state=State(("s",), lambda x, m, k: (m.addcmul(x, x, value=0.1),))
    ),
    Operator("ones", 1, memory, state=State(("o",), lambda x, m, k: (m * 2,), torch.ones_like)),
]
UNARY = [o.name for o in USERS if o.arity == 1]


@pytest.fixture
def users():
    for operator in USERS:
        operators.register(operator)
    yield
    for operator in USERS:
        operators.remove(operator.name)


@pytest.mark.parametrize("way", EAGER, ids=str)
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.usefixtures("users", "small_chunks")
def test_operators_of_users(name, way):
    for text in (
        f"{name}(g)",
        f"{name}(m1) + m1",
        f"exp(m1) + {name}(exp(g))*m2",
        f"exp(m1) - {name}(exp(g))",
        f"{name}(exp(g)) - exp(m1)*{name}(ld)",
        f"{name}(ld)",
        f"{name}({name}(m1)) / drop({name}(2))",
        f"scaled({name}(g), ld) + scaled(m1, {name}(m1))",
    ):
        check(text, **way)


@pytest.mark.parametrize(
    "text",
    [
        *("branching(g) + shaped(m1)", "crossed(lag(g))", "own_relu(g) - leaky(m1)*tenth(g)"),
        *("own_ema(ld)*own_ema(g, 0.5)", "age(g) + inside(m1)*constant(ld)"),
    ],
)
@pytest.mark.usefixtures("users", "quick_compile")
def test_operators_of_users_compiled(text):
    check(text, parameters(shapes=((2, 3), (4,))), compile=True)


@pytest.mark.usefixtures("users", "quick_compile")
def test_what_cannot_be_compiled_is_said():
    with pytest.raises(OptsmithError, match=r"ema_untraced\(g\) cannot be compiled"):
        check("ema_untraced(g)", compile=True)


SCALAR = ["ld", "2", "-rd", "ld/cd", "drop(ld)", "2*drop(1)", "g - g", "sign(0*m1)", "m1*m1(0.5)"]


@pytest.mark.parametrize("text", SCALAR)
@pytest.mark.usefixtures("quick_compile")
def test_scalar_and_constant_rules(text):
    for way in EAGER:
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            check(text, dtype=dtype, **way)
    check(text, parameters(shapes=((2, 3),)), compile=True)


@pytest.mark.parametrize("way", EAGER, ids=str)
@pytest.mark.usefixtures("small_chunks")
def test_rules_drawn_at_random(way):
    rng = random.Random(20)
    for _ in range(200):
        rule = spaces["paper"].sample(rng)
        check(str(rule), parameters(shapes=((3, 4), ())), **way)


def test_state_is_only_what_the_rule_needs():
    needs = {"g": (), "m1*sm1 + m1": ("momentum",), "m1(0.5) + m1": ("momentum", "momentum.2")}
    needs |= {"Adam - exp(Adam)": ("exp_avg", "exp_avg_sq"), "drop(ld)*sg": ()}
    needs["whitenr(orth(whitenr(g, w)), w)"] = ("left", "left_root")  # of w, whatever is whitened
    needs["whitenr(w, g) + whitenr(g, w)"] = ("left", "left.2", "left_root", "left_root.2")
    for text, slots in needs.items():
        assert sorted(Program(Rule.parse(text)).slots) == sorted(slots)


# --- drop masks ----------------------------------------------------------------------------------


def masks(seed=0, text="drop(1)", sizes=(400, 400), steps=3, **way):
    """Return the updates of a rule of `drop` by step and parameter: 0 where dropped."""
    params = [torch.nn.Parameter(torch.zeros(n)) for n in sizes]
    opt = optimizer(params, text, lr=1.0, seed=seed, **way)
    history = [[torch.zeros(n) for n in sizes], *run(opt, range(1, steps + 1))]
    return [
        [(a - b).round(decimals=3) for a, b in zip(new, old, strict=True)]
        for old, new in pairwise(history)
    ]


@pytest.mark.usefixtures("quick_compile", "small_chunks")
def test_masks_are_the_same_in_every_way():
    assert_same(masks(seed=9), masks(seed=9, foreach=True))
    assert_same(masks(seed=9), masks(seed=9, compile=True))


def test_masks_are_independent():
    steps = masks(seed=1, steps=5, text="drop(1, 0.5)")
    pairs = [(step[0], step[1]) for step in steps]  # of parameters
    pairs += [(a[0], b[0]) for a, b in pairwise(steps)]  # of steps
    pairs += [(steps[0][0], masks(seed=s, text="drop(1, 0.5)")[0][0]) for s in (0, 2, 2**33, -1)]
    pairs.append((masks(text="drop(1, 0.5) + 0*drop(2)")[0][0], steps[0][0]))
    for one, two in pairs:
        agree = ((one != 0) == (two != 0)).double().mean()
        assert 0.38 < agree < 0.62
    both = masks(text="drop(1, 0.5)*drop(1, 0.5)", sizes=(4000,))[0][0]  # of nodes
    assert 0.22 < (both != 0).double().mean() < 0.28


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.9])
def test_rate_of_drop(rate):
    kept = masks(text=f"drop(1, {rate})", sizes=(20_000,))[0][0] != 0
    assert float(kept.double().mean()) == pytest.approx(1 - rate, abs=0.012)


def test_masks_do_not_touch_torchs_generator():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one = masks()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(4)
    assert_same(one, masks())


# --- no compilation after the first step ---------------------------------------------------------


@pytest.mark.parametrize("text", ["products1", "ppi", "m1^cd - rd"])
def test_one_compilation_for_the_run(text, quick_compile):
    params = parameters(torch.float32, shapes=(*SHAPES, (0,), (7,)))
    opt = optimizer(params, text, lr=0.1, total_steps=8, compile=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 0.5, total_steps=8, cycle_momentum=False)
    compiled, rates = [], set()
    for t in range(1, 9):
        rates.add(opt.param_groups[0]["lr"])
        run(opt, [t])
        if t < 8:
            schedule.step()
        compiled.append(len(quick_compile))
    assert len(rates) == 8
    assert compiled == [1] * 8


@pytest.mark.parametrize("text", ["Adam", "m1*drop(g)"])
def test_a_kernel_takes_any_sizes(text, quick_compile):
    """The sizes of tensors in a bucket may be equal, different, small or large."""
    del quick_compile  # the graph determines which sizes must be equal
    check(text, parameters(shapes=((2, 3), (6,), (3, 2))), compile=True)
    check(text, parameters(shapes=((5,), (2,), (40, 30))), compile=True)


def test_kernels_by_number_size_and_precision(quick_compile):
    params = [*parameters(shapes=[(3,)] * 18), *parameters(torch.bfloat16, shapes=[(3,)] * 18)]
    run(optimizer(params, "m1", compile=True), range(1, 3))
    assert len(quick_compile) == 4  # 8 and 2 tensors in two precisions
    params = parameters(torch.float32, shapes=((3,), (_eager.SMALL + 1,)))
    run(optimizer(params, "m1", compile=True), range(1, 3))
    assert len(quick_compile) == 6  # one with threads


def test_a_compiled_step_is_seen_by_autograd():
    """A loss computed before a step cannot be differentiated after it, as in torch."""
    (param,) = parameters(torch.float32, shapes=((3,),))
    opt = optimizer([param], "m1", compile=True)
    loss = param.square().sum()
    run(opt, [1])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_state_of_another_size_never_reaches_a_kernel():
    (param,) = parameters(torch.float32, shapes=((3,),))
    opt = optimizer([param], "m1", compile=True)
    run(opt, [1])
    opt.state[param]["momentum"] = torch.zeros(2)
    with pytest.raises(RuntimeError, match="size of tensor"):
        run(opt, [2])


@pytest.mark.usefixtures("quick_compile")
def test_state_of_another_precision_never_reaches_a_kernel():
    (param,) = parameters(torch.float32, shapes=((3,),))
    opt = optimizer([param], "m1", compile=True)
    run(opt, [1])
    opt.state[param]["momentum"] = torch.zeros(3, dtype=torch.float16)
    kernels = opt._parts[False].fused.kernels
    (key,) = kernels
    kernels[key] = pytest.fail
    run(opt, [2])


def test_rules_that_differ_in_constants_share_their_kernels(quick_compile):
    for text in ("0.5*mom(g, 0.9)", "0.25*mom(g, 0.8)"):
        check(text, parameters(shapes=((2, 3), (4,))), compile=True)
    assert len(quick_compile) == 1
    check("0.5*mom(g, 0.9)^2", parameters(shapes=((2, 3), (4,))), compile=True)
    assert len(quick_compile) == 2


def test_the_number_of_kernels_is_bounded(quick_compile, monkeypatch):
    monkeypatch.setattr(_fused, "MOST_KERNELS", 1)
    for text in ("g", "mom(g)", "g"):
        run(optimizer(parameters(shapes=((2, 3),)), text, compile=True), [1, 2])
    assert len(quick_compile) == 3


def test_a_class_of_its_own_is_not_compiled(quick_compile):
    class Special(torch.Tensor):
        pass

    param = torch.nn.Parameter(torch.zeros(3).as_subclass(Special))
    run(optimizer([param], "m1", compile=True), [1, 2])
    assert not quick_compile
    assert param.abs().sum() > 0


def test_without_standalone_compilation_torch_compile_does_it(monkeypatch):
    monkeypatch.delattr(torch._inductor, "standalone_compile")
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    check("products1", parameters(shapes=((2, 3), (4,))), compile=True)


def test_chunks_follow_the_size_of_the_cache():
    params = parameters(shapes=((3, _machine.CHUNK),))
    others = clones(params)
    assert_near(
        run(optimizer(params, "rte"), [1, 2]), run(optimizer(others, "rte", foreach=True), [1, 2])
    )
