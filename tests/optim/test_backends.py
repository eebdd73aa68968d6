"""All back ends compared with the program itself, in one table of rules."""

from __future__ import annotations

import pytest
import torch
from backends import (
    LR,
    WHOLE,
    Data,
    by_copies,
    by_export,
    by_optimizer,
    by_probe,
    by_program,
    by_rows,
    gram,
    unit,
)
from runs import REPRESENTATIVES, assert_near, gradient

from optsmith import OptimizerError, Rule, RuleOptimizer, operators, zoo
from optsmith.optim import Backend, Program, _machine
from optsmith.optim._fused import FusedStep
from optsmith.training.stacked import _row_programs
from optsmith.training.stacked._rows import RowOptimizer

MODERN = [
    "ema(g, 0.8)/sqrt(ema(g^2, 0.95)) + 0.1*w",
    "lin(0.2, 0.9, 0.1)*mix(mom(relu(g) - w), prev(max(g, w)), 0.3) + wu(0.5)*min(g, ld)/k",
    "drop(g)*cos(0, 1, 0.2)^0.7 + mom(log(1 + 0.1*k), 1)*prev(w)",
]
MODERN_TENSOR = [
    "ld*fan*orth(mix(g, ema(g, 0.9), 0.2)) + 0.01*w",
    "rms(w)*unit(m1) + aspect*rows(g) - cols(w)",
    "whiten(g, mom(g), 0.8, 2) + whitenr(w, g, 0.9, 3) - drop(whitenc(g, g))",
    "whiten(orth(whiten(m1, g, 0.9, 2)), g, 0.9, 2)",
]
ELEMENT = [str(zoo[name].rule) for name in REPRESENTATIVES] + MODERN
TENSOR = [
    "own_unit(m1)",
    "ld*g/norm(g)",
    "gram(own_unit(g)) + m1",
    "norm(ld)*drop(g) + norm(g)",
    "own_unit(g) + own_unit(g)*branch(m1)",
    *MODERN_TENSOR,
    "own_whiten(m1) - own_whiten(g, 0.5)*norm(g)",
]
STEPS = 5
SHAPES = ((), (7,), (3, 4), (2, 3, 3, 2), (0, 3))
BY_OPTIMIZER = {"eager": {}, "machine": {"foreach": False}, "lists": {"foreach": True}}
BACKENDS = [*BY_OPTIMIZER, "fused", "rows", "copies", "probe", "export"]


@pytest.fixture(autouse=True)
def whole_operators(monkeypatch):
    """Register the operators of whole tensors, and process element-wise rules in small pieces."""
    monkeypatch.setattr(_machine, "CHUNK", 5)
    monkeypatch.setattr(_row_programs, "PIECE", 24)
    monkeypatch.setattr(torch._inductor, "standalone_compile", lambda graph, examples: graph)
    for operator in WHOLE:
        operators.register(operator)
    yield
    for operator in WHOLE:
        operators.remove(operator.name)


def backend(name, folder):
    others = {"rows": by_rows, "copies": by_copies, "probe": by_probe}
    if name == "export":
        return by_export(folder)
    if name == "fused":
        return by_optimizer(compile=True)
    return by_optimizer(**BY_OPTIMIZER[name]) if name in BY_OPTIMIZER else others[name]


def data(shapes=SHAPES, dtype=torch.float64):
    """Return parameters, the last a transposed matrix, and gradients."""
    params = [gradient(torch.empty(s), i, 0).to(dtype) for i, s in enumerate(shapes)]
    params.append(gradient(torch.empty(4, 5), 9, 0).to(dtype).t())
    gradients = [
        [gradient(p, i, t).to(dtype) for i, p in enumerate(params)] for t in range(1, STEPS + 1)
    ]
    return Data(params, gradients)


def one_by_one(every):
    """Return one data set per parameter."""
    pairs = enumerate(every.params)
    return [Data([p], [[g[i]] for g in every.gradients]) for i, p in pairs]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("text", [*ELEMENT, *TENSOR])
def test_same_numbers_as_the_program(text, name, tmp_path):
    rule, run = Rule.parse(text), backend(name, tmp_path)
    if name == "fused" and Program(rule).scope == "tensor":
        with pytest.raises(OptimizerError, match=r"on whole tensors \(.*\): use compile=False"):
            run(rule, data())
        return
    # The probe has masks for one parameter only.
    for given in one_by_one(data()) if name == "probe" else [data()]:
        before = [[g.clone() for g in step] for step in given.gradients]
        trained, expected = run(rule, given), by_program(rule, given)
        assert_near(trained, expected, rtol=1e-9, atol=1e-11)
        assert all(
            torch.equal(a, b)
            for step, old in zip(given.gradients, before, strict=True)
            for a, b in zip(step, old, strict=True)
        )


IN_OTHER_PRECISIONS = [
    (name, dtype, text)
    for name in [*BY_OPTIMIZER, "fused", "export"]
    for dtype in (torch.float32, torch.bfloat16, torch.float16)
    for text in [*ELEMENT[2:], TENSOR[-1]]
    if not (name == "fused" and text in TENSOR)
    # bfloat16 and float16 are treated alike, so that one rule suffices for the latter.
    and not (dtype == torch.float16 and text != ELEMENT[-1])
]


@pytest.mark.parametrize(("name", "dtype", "text"), IN_OTHER_PRECISIONS)
def test_other_precisions(text, name, dtype, tmp_path):
    rule = Rule.parse(text)
    given = data(dtype=dtype)
    tolerance = 1e-4 if dtype == torch.float32 else 2e-2
    trained = backend(name, tmp_path)(rule, given)
    assert {p.dtype for p in trained} == {dtype}
    assert_near(trained, by_program(rule, given), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("text", ["m1", TENSOR[0], TENSOR[2]])
def test_what_is_not_finite_stays_in_its_tensor(text, name, tmp_path):
    """The same holds for copies: the other rows and copies have finite gradients."""
    rule, given = Rule.parse(text), data([(3, 4), (3, 4), (3, 4)])
    if name == "fused" and text in TENSOR:
        return  # refused
    expected = by_program(rule, given)
    for step in given.gradients:
        step[0][0, 0], step[1][0, 0] = float("nan"), float("inf")
    trained = backend(name, tmp_path)(rule, given)
    assert not trained[0][0, 0].isfinite()
    assert not trained[1][0, 0].isfinite()
    assert_near(trained[2:], expected[2:], rtol=1e-9, atol=1e-11)


def test_the_program_gives_whole_tensors():
    given = data()
    pairs = {"own_unit(g)": unit, "gram(g)": gram}
    for text, function in pairs.items():
        expected = [
            p - LR * sum(function(g[i]) for g in given.gradients)
            for i, p in enumerate(given.params)
        ]
        assert_near(by_program(Rule.parse(text), given), expected)
    length = by_program(
        Rule.parse("own_unit(g)"), Data([torch.zeros(40, 2)], [[torch.ones(40, 2)]])
    )
    assert float(length[0].norm()) == pytest.approx(LR)


@pytest.mark.parametrize("way", BY_OPTIMIZER.values(), ids=BY_OPTIMIZER)
def test_state_has_its_own_shape_and_is_updated_in_place(way):
    param = torch.nn.Parameter(torch.ones(3, 4))
    optimizer = RuleOptimizer([param], "own_whiten(g) + m1", LR, **way)
    places = None
    for t in (1, 2):
        param.grad = gradient(param, 0, t)
        optimizer.step()
        state = optimizer.state[param]
        assert state["left"].shape == (3, 3)
        assert state["momentum"].shape == (3, 4)
        now = {n: x.data_ptr() for n, x in state.items() if n != "step"}
        assert now == (places or now)
        places = now
    twin = RuleOptimizer([torch.nn.Parameter(torch.ones(3, 4))], "own_whiten(g) + m1", LR)
    twin.load_state_dict(optimizer.state_dict())
    assert torch.equal(next(iter(twin.state.values()))["left"], state["left"])


def test_an_operator_that_fails_on_what_is_not_finite_spoils_its_copy_alone():
    def root(x):
        return torch.linalg.eigh(x @ x.T)[1] @ x

    operators.register(type(WHOLE[0])("root", 1, root, scope="tensor"))
    try:
        rule, given = Rule.parse("root(g)"), data([(3, 4)])
        for step in given.gradients:
            step[0][:] = float("nan")
        for run in (by_program, by_rows, by_copies, by_optimizer(foreach=True)):
            trained = run(rule, given)
            assert trained[0].isnan().all()
            assert trained[1].isfinite().all()
    finally:
        operators.remove("root")


def test_shapes_that_are_wrong_are_refused():
    operators.register(type(WHOLE[0])("flat", 1, lambda x: x.flatten(), scope="tensor"))
    try:
        for run in (by_program, by_rows, by_copies, by_optimizer(), by_probe):
            with pytest.raises(Exception, match="return a tensor of the same shape, or one number"):
                run(Rule.parse("flat(g)"), data([(3, 4)]))
    finally:
        operators.remove("flat")


def test_back_ends_say_what_they_do_not_serve():
    element, tensor = Program(Rule.parse("m1")), Program(Rule.parse("own_unit(m1)"))
    half = [torch.zeros(2, dtype=torch.float16)]
    assert FusedStep.scopes == {"element"}
    for kind in (_machine.Machine, RowOptimizer):
        assert kind.scopes == {"element", "tensor"}
        kind.check(tensor, [torch.zeros(2)])
    _machine.Machine.check(element, half)
    with pytest.raises(OptimizerError, match=r"float16: train one run at a time"):
        RowOptimizer.check(element, half)
    with pytest.raises(OptimizerError, match="does not support meta: use compile=False"):
        FusedStep.check(element, [torch.zeros(2, device="meta")])
    with pytest.raises(OptimizerError, match="float8"):
        RuleOptimizer([torch.zeros(2).to(torch.float8_e5m2)], "m1", LR)
    with pytest.raises(TypeError, match="abstract"):
        Backend()


def test_sharded_parameters_are_refused_for_whole_tensors(tmp_path):
    dist = pytest.importorskip("torch.distributed")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    dist.init_process_group("gloo", f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        parts = torch.nn.Parameter(distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)]))
        same = torch.nn.Parameter(distribute_tensor(torch.ones(4, 2), mesh, [Replicate()]))
        with pytest.raises(OptimizerError, match="sharded over processes"):
            RuleOptimizer([parts], "own_unit(g)", LR)
        for text in ("orth(g)", "fan*g", "whiten(m1, g)", "rms(w)*g", "unit(g)", "rows(g)"):
            with pytest.raises(OptimizerError, match="sharded over processes"):
                RuleOptimizer([parts], text, LR)
        by_role = "hidden(orth(g), ema(g))"
        with pytest.raises(OptimizerError, match="orth needs whole tensors"):
            RuleOptimizer([{"params": [parts], "role": "hidden"}], by_role, LR)
        RuleOptimizer([{"params": [parts], "role": "embedding"}], by_role, LR)
        RuleOptimizer([parts], "ema(g) + 0.1*prev(w)", LR)
        RuleOptimizer([same], "own_unit(g)", LR)
        RuleOptimizer([parts], "m1", LR)
    finally:
        dist.destroy_process_group()
