import copy
import math
import pickle
import random

import numpy as np
import pytest
import torch

import reference
from optsmith import Operator, OptsmithError, Parameter, Rule, RuleError, State, operators, screen
from optsmith.rules import BINARY, INPUTS, MODERN, PAPER, UNARY, find_operator, number
from optsmith.screening._probe import Probe
from optsmith.screening._trajectory import Trajectory
from strategies import CUSTOM, EMA, NOISE, TANH, random_rule, registered

STEPS, SIZE = 12, 40
TAUS = [(3 * t) / (3 * STEPS + 1) for t in range(1, STEPS + 1)]


def gradients(steps=STEPS, size=SIZE, seed=0):
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(steps, size)) * 10.0 ** rng.integers(-4, 2, size=size)
    g[rng.random(g.shape) < 0.1] = 0.0
    g[:, 0], g[:, 1] = 0.0, -0.0
    return g


def run(rule, g, taus=None, recorded=None, seed=0):
    if isinstance(rule, str):
        rule = Rule.parse(rule)
    taus = torch.tensor(TAUS[: len(g)] if taus is None else taus, dtype=torch.float64)
    trajectory = Trajectory(torch.tensor(g), taus, g.shape[1], recorded or range(len(g)))
    return Probe([trajectory], seed).run(rule)[0]


def assert_same(actual, expected, rtol=1e-12):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-300)


def test_the_papers_operators_are_all_there():
    assert [o.name for o in UNARY] == ["neg", "exp", "log", "sqrt", "clip", "drop", "sign"]
    assert [o.name for o in BINARY] == ["add", "sub", "mul", "div", "pow"]
    assert {o.name for o in INPUTS} == {*reference.GRADIENTS, *reference.TIMES, "1", "2"} - {"wc"}
    assert (len(UNARY), len(BINARY), len(INPUTS), len(set(PAPER))) == (7, 5, 15, 27)
    assert [{o.arity for o in kind} for kind in (UNARY, BINARY, INPUTS)] == [{1}, {2}, {0}]
    others = {"abs", "wc", *(o.name for o in MODERN)}
    assert set(operators) == {o.name for o in PAPER} - {"1", "2"} | others


@pytest.mark.parametrize("name", [*reference.GRADIENTS, *reference.TIMES, "1", "2", "0.25", "1e-9"])
def test_inputs(name):
    g = gradients()
    actual = run(name, g)
    assert actual.shape == g.shape
    assert_same(actual, reference.evaluate(Rule.parse(name), g, TAUS))


@pytest.mark.parametrize("name", reference.UNARY)
def test_unary(name):
    for operand in ("g", "m1", "m3", "0*log(g - g)"):
        rule = Rule.parse(f"{name}({operand})")
        assert_same(run(rule, gradients()), reference.evaluate(rule, gradients(), TAUS))


@pytest.mark.parametrize("right", ["g", "m2", "ld", "g - g", "-(g - g)"])
@pytest.mark.parametrize("name", reference.BINARY)
def test_binary(name, right):
    for left in ("g", "m1", "2"):
        rule = Rule.parse(f"{name}({left}, {right})")
        assert_same(run(rule, gradients()), reference.evaluate(rule, gradients(), TAUS))


@pytest.mark.parametrize(
    "text",
    [
        "\n    m1(0.5)",
        " sm1(0.2)",
        " m2(0)",
        " m3(0.9)",
        " cd(2)",
        " rd(3)",
        " wc(0.5)",
        " clip(g, 0.5)",
        " RMSprop(1)",
        "\n    Adam(1, 0.5, 0.9, 0.001)",
        " RMSprop(alpha=0.5, eps=0.1)\n    ",
    ],
)
def test_parameters_reach_the_function(text):
    g, rule = gradients(), Rule.parse(text)
    assert_same(run(rule, g), reference.evaluate(rule, g, TAUS), rtol=1e-9)
    first, *rest = rule.operators
    default = reference.evaluate(Rule((operators[first.name], *rest)), g, TAUS)
    assert not np.allclose(run(rule, g), default, rtol=1e-3, atol=0)


def torch_updates(optimizer, g):
    p = torch.zeros(g.shape[1], dtype=torch.float64, requires_grad=True)
    opt, out = optimizer([p]), []
    for row in g:
        with torch.no_grad():
            p.zero_()
        p.grad = torch.tensor(row)
        opt.step()
        out.append(-p.detach().numpy().copy())
    return np.array(out)


@pytest.mark.parametrize(
    ("text", "optimizer"),
    [
        ("m1", lambda p: torch.optim.SGD(p, 1.0, momentum=0.9)),
        ("Adam", lambda p: torch.optim.Adam(p, 0.003)),
        ("RMSprop", lambda p: torch.optim.RMSprop(p, 0.03)),
        ("Adam(0.1, 0.5, 0.6, 0.1)", lambda p: torch.optim.Adam(p, 0.1, (0.5, 0.6), 0.1)),
        ("RMSprop(0.1, 0.5, 0.2)", lambda p: torch.optim.RMSprop(p, 0.1, 0.5, 0.2)),
    ],
)
def test_inputs_are_torchs_updates(text, optimizer):
    g = gradients(seed=1)
    np.testing.assert_allclose(run(text, g), torch_updates(optimizer, g), rtol=1e-12, atol=1e-15)


def test_averages_start_at_the_first_value():
    g = gradients()
    assert_same(run("m2", g)[0], g[0] ** 2)
    assert_same(run("m3", g)[0], g[0] ** 3)
    assert_same(run("m2(0.75)", g)[1], 0.75 * g[0] ** 2 + 0.25 * g[1] ** 2)


def test_decays_stay_inside_a_run():
    total = 100
    taus = [t / (total + 1) for t in range(1, total + 1)]
    g = np.ones((total, 1))
    ld, cd, rd = (run(name, g, taus)[:, 0] for name in ("ld", "cd", "rd"))
    assert (np.diff(ld) < 0).all()
    assert (np.diff(cd) < 0).all()
    assert 0 < ld.min() <= ld.max() < 1
    assert 0 < cd.min() <= cd.max() < 1
    assert 0 <= rd.min() <= rd.max() <= 1
    assert (np.diff(rd) > 0).sum() == 19  # twenty periods, nineteen restarts


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (1.0, 0.0, 1e8),
        (1.0, -0.0, 1e8),
        (-1.0, -0.0, -1e8),
        (1.0, 1e-300, 1e8),
        (1.0, -1e-300, -1e8),
        (1.0, 1e-8, 0.5e8),
        (1.0, -1e-8, -0.5e8),
        (3.0, 2.0, 3 / 2.00000001),
        (3.0, -2.0, -3 / 2.00000001),
        (0.0, 0.0, 0.0),
        (1.0, math.inf, 0.0),
        (1.0, math.nan, math.nan),
    ],
)
def test_division_guard(x, y, expected):
    x, y = torch.tensor([x, y], dtype=torch.float64)
    actual = float(operators["div"].torch(x, y))
    assert actual == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 7, 1024])
def test_sign_of_nan_is_zero(dtype, size):
    x = torch.full((size,), math.nan, dtype=dtype)
    assert (operators["sign"].torch(x) == 0).all()


def test_pow_and_log_are_plain():
    x = torch.tensor([-1.0, 0.0, 0.0], dtype=torch.float64)
    y = torch.tensor([0.5, -1.0, 0.0], dtype=torch.float64)
    power = operators["pow"].torch(x, y).tolist()
    assert math.isnan(power[0])
    assert power[1:] == [math.inf, 1.0]
    assert operators["log"].torch(x).tolist() == [0.0, -math.inf, -math.inf]


@pytest.mark.parametrize(("text", "rate"), [("drop(g)", 0.1), ("drop(g, 0.6)", 0.6)])
def test_drop_is_dropout(text, rate):
    g = np.random.default_rng(0).normal(size=(20, 2000))
    out = run(text, g, taus=[0.5] * 20)
    kept = out != 0
    assert_same(out[kept], g[kept] / (1 - rate))
    assert (~kept).mean() == pytest.approx(rate, abs=5 * math.sqrt(rate * (1 - rate) / g.size))
    # Masks are independent over steps and elements: rates of rows and columns are binomial.
    for axis in (0, 1):
        n = g.shape[axis]
        spread = (~kept).mean(axis=axis).std() / math.sqrt(rate * (1 - rate) / n)
        assert 0.6 < spread < 1.4


def test_drop_nodes_never_share_a_mask():
    g = np.ones((20, 2000))
    taus = [0.5] * 20
    assert (run("drop(g) - drop(g)", g, taus) != 0).mean() == pytest.approx(0.18, abs=0.01)
    assert (run("drop(drop(g))", g, taus) != 0).mean() == pytest.approx(0.81, abs=0.01)
    assert (run("drop(g)*drop(g)*drop(g)", g, taus) != 0).mean() == pytest.approx(0.729, abs=0.01)
    masks = [run("drop(g)", g, taus, seed=s) != 0 for s in (0, 0, 1)]
    assert (masks[0] == masks[1]).all()
    assert (masks[0] & masks[2]).mean() == pytest.approx(0.81, abs=0.01)


def test_drop_of_a_number_has_a_mask_per_element():
    out = run("drop(rd^2)", np.ones((20, 2000)), taus=[0.01] * 20)
    assert len(np.unique(out)) == 2
    assert (out == 0).mean() == pytest.approx(0.1, abs=0.01)


# --- the registry ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["g", "drop", "Adam", "add"])
def test_registry_refuses_a_taken_name(name):
    with pytest.raises(OptsmithError, match=f'already a operator named "{name}"|already an'):
        operators.register(Operator(name, 1, lambda x: x))
    assert operators[name].torch is not None


@pytest.mark.parametrize("name", ["", "2x", "a b", "é", "x-y", "f\n", "f(", "?", "a.b", "1"])
def test_registry_refuses_bad_names(name):
    with pytest.raises(RuleError, match="must be letters"):
        operators.register(Operator(name, 1, lambda x: x))
    assert name not in operators


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arity": 3}, "arity must be"),
        ({"arity": -1}, "arity must be"),
        ({"arity": 0}, "a feed"),
        ({"arity": 1, "feed": "gradient"}, "a feed"),
        ({"arity": 1, "values": (1.0,)}, "0 parameters"),
        ({"arity": 1, "parameters": (Parameter("p", 2.0, 0.0, 1.0),)}, "p of f must be"),
    ],
)
def test_operators_refuse_nonsense(arguments, message):
    with pytest.raises(RuleError, match=message):
        Operator("f", torch=lambda x: x, **arguments)


def test_removing_an_unknown_name_is_an_error():
    with pytest.raises(OptsmithError, match='did you mean "clip"'):
        operators.remove("clipp")


# --- operators that users add ---------------------------------------------------------------------


def test_a_stateless_operator():
    g = gradients()
    with registered(TANH):
        rule = Rule.parse("tanh(3*m1) + tanh(g)")
        assert str(rule) == "tanh(3*m1) + tanh(g)"
        assert r"\operatorname{tanh}\left(g\right)" in rule.latex()
        assert "tanh" in rule.tree()
        expected = np.tanh(3 * reference.momentum(g)) + np.tanh(g)
        assert_same(run(rule, g), expected, rtol=1e-6)
        assert screen(rule).ok
    with pytest.raises(RuleError, match='unknown name "tanh"'):
        Rule.parse("tanh(g)")


def ema_loop(x, beta):
    out, m = [], np.zeros(x.shape[1])
    for row in x:
        m = beta * m + (1 - beta) * row
        out.append(m)
    return np.array(out)


def test_a_stateful_operator_carries_its_state():
    g = gradients()
    with registered(EMA):
        rule = Rule.parse("smooth(ld*smooth(g), 0.5) - smooth(sign(g), beta=0.99)")
        assert str(rule) == "smooth(ld*smooth(g), 0.5) - smooth(sign(g), 0.99)"
        assert rule.latex().count(r"\operatorname{smooth}") == 3
        ld = 1 - np.array(TAUS)[:, None]
        expected = ema_loop(ld * ema_loop(g, 0.9), 0.5) - ema_loop(np.sign(g), 0.99)
        assert_same(run(rule, g), expected, rtol=1e-10)
        # Steps that are not recorded update the state, too.
        some = range(2, STEPS, 3)
        assert_same(run(rule, g, recorded=some), expected[list(some)], rtol=1e-10)
        assert screen(Rule.parse("smooth(g)")).ok
        texts = ("g", "m1", "smooth(g, 0.5)", "smooth(g)")
        codes = [screen(Rule.parse(text)).scale_fingerprint for text in texts]
        assert len(set(codes)) == 3
        assert codes[1] == codes[3]  # the average from zero is the momentum, ten times smaller
        # A constant has state per element, too.
        ones = np.ones((STEPS, SIZE))
        assert_same(run("smooth(1)", g), ema_loop(ones, 0.9), rtol=1e-10)
    assert "smooth" not in operators


def test_state_starts_where_init_says_and_counts_updates():
    counter = Operator(
        "counter",
        1,
        lambda x, total, k: total + 1000 * k,
        state=State(("total",), lambda x, total, k: (total + k,), init=lambda x: x.abs() + 5),
    )
    g = gradients()
    with registered(counter):
        steps = np.arange(1, STEPS + 1)[:, None]
        expected = np.abs(g[0]) + 5 + steps * (steps + 1) / 2 + 1000 * steps
        assert_same(run("counter(g)", g), expected)
        # State starts anew in each trajectory.
        parts = [
            Trajectory(torch.tensor(g[:n]), torch.tensor(TAUS[:n]), SIZE, range(n)) for n in (3, 5)
        ]
        for out, n in zip(Probe(parts, 0).run(Rule.parse("counter(g)")), (3, 5), strict=True):
            assert_same(out, expected[:n])


def test_a_random_operator_gets_uniform_numbers():
    with registered(NOISE):
        out = run("noise(g - g, 2)", np.ones((20, 2000)), taus=[0.5] * 20)
    assert -1 <= out.min() < -0.99
    assert 0.99 < out.max() < 1
    assert np.histogram(out, bins=10, range=(-1, 1))[0] == pytest.approx(4000, rel=0.08)


def test_a_constant_of_the_users_prints_in_latex():
    pi = Operator("pi", 0, lambda: math.pi, feed="nothing")
    with registered(pi):
        rule = Rule.parse("pi*g")
        assert str(rule) == "pi*g"
        assert_same(run(rule, gradients()), math.pi * gradients())
        assert "pi" in rule.latex()


# --- equality, copies, variants -------------------------------------------------------------------

COPIES = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_copies_are_equal(duplicate):
    variants = (operators["drop"].variant(0.3), operators["Adam"].variant(eps=0.5), number(0.125))
    for operator in (*PAPER, operators["abs"], operators["wc"], *variants):
        twin = duplicate(operator)
        assert twin == operator
        assert hash(twin) == hash(operator)
        assert (twin.values, twin.arity, twin.feed) == (
            operator.values,
            operator.arity,
            operator.feed,
        )
    rng = random.Random(0)
    with registered(*CUSTOM):
        for rule in (random_rule(rng, 20) for _ in range(200)):
            twin = duplicate(rule)
            assert twin == rule
            assert hash(twin) == hash(rule)
            assert str(twin) == str(rule)


def test_variants_are_equal_by_value():
    drop, m1, adam = operators["drop"], operators["m1"], operators["Adam"]
    assert drop.variant(0.3) == drop.variant(rate=0.3) != drop
    assert drop.variant(0.1) == drop.variant() == drop
    assert hash(drop.variant(0.1)) == hash(drop)
    assert m1.variant(0) == m1.variant(0.0)
    assert len({drop, drop.variant(0.3), drop.variant(0.3), drop.variant(0.4)}) == 3
    assert adam.variant(1, eps=0.1).values == (1.0, 0.9, 0.999, 0.1)
    assert adam.variant(1).variant(beta2=0.5) == adam.variant(1, beta2=0.5)
    assert operators["m1"] != operators["sm1"]
    assert number(1) == number(1.0) != number(2)
    assert drop != "drop"


@pytest.mark.parametrize(
    ("name", "values", "named"),
    [
        ("drop", (1.0,), {}),
        ("drop", (-0.1,), {}),
        ("drop", (math.nan,), {}),
        ("drop", (0.1, 0.2), {}),
        ("drop", (0.1,), {"rate": 0.2}),
        ("drop", (), {"ratte": 0.2}),
        ("clip", (math.inf,), {}),
        ("clip", (-1.0,), {}),
        ("m1", (1.0,), {}),
        ("Adam", (), {"beta2": 1.5}),
        ("g", (0.5,), {}),
        ("sign", (), {"rate": 0.5}),
    ],
)
def test_variants_refuse_what_is_out_of_range(name, values, named):
    with pytest.raises(RuleError, match=name):
        operators[name].variant(*values, **named)


def test_integer_defaults_of_parameters_are_printable():
    op = Operator("f", 1, lambda x, a, b: x, parameters=(Parameter("a", 1), Parameter("b", 0.5)))
    with registered(op):
        rule = Rule.parse("f(g, b=0.25)")
        assert str(rule) == "f(g, 1, 0.25)"


@pytest.mark.parametrize("value", [-1.0, math.inf, -math.inf, math.nan])
def test_numbers_refuse(value):
    with pytest.raises(RuleError):
        number(value)


def test_stored_keys_are_found():
    assert find_operator("drop", (0.3,)) == operators["drop"].variant(0.3)
    assert find_operator("0.25") == number(0.25)
    with pytest.raises(OptsmithError, match="did you mean"):
        find_operator("sgn")


@pytest.mark.parametrize("names", [(), ("add", "g"), ("g", "g"), ("neg",), ("neg", "g", "m1")])
def test_rules_are_exactly_one_tree(names):
    with pytest.raises(RuleError):
        Rule(tuple(operators[n] for n in names))
