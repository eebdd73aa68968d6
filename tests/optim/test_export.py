"""Exported files require only torch and train as `RuleOptimizer` does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from runs import REPRESENTATIVES

from optsmith import OptimizerError, Rule, RuleOptimizer, zoo
from optsmith.cli import main
from optsmith.optim import export
from optsmith.rules import Operator, State, operators

STEPS = 50
SHAPES = [(6, 5), (7,), (1,), ()]

# Runs in a process where optsmith cannot be imported; the gradients come from the parent.
ALONE = """
import importlib.util, sys, torch
sys.modules["optsmith"] = None
torch.set_num_threads(1)
folder, compiled = sys.argv[1], sys.argv[2] == "compile"
inputs = torch.load(f"{folder}/inputs.pt", weights_only=True)
results = {}
for name in inputs["names"]:
    spec = importlib.util.spec_from_file_location(name, f"{folder}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    params = [p.clone().requires_grad_() for p in inputs["params"]]
    optimizer = module.Exported(
        params, lr=0.01, total_steps=len(inputs["gradients"]), weight_decay=0.1, compile=compiled
    )
    for gradients in inputs["gradients"]:
        for p, g in zip(params, gradients):
            p.grad = g.clone()
        optimizer.step()
    results[name] = ([p.detach() for p in params], optimizer.state_dict())
torch.save(results, f"{folder}/results.pt")
"""


def reference(rule, params, gradients):
    params = [p.clone().requires_grad_() for p in params]
    optimizer = RuleOptimizer(params, rule, lr=0.01, total_steps=len(gradients), weight_decay=0.1)
    for step in gradients:
        for p, g in zip(params, step, strict=True):
            p.grad = g.clone()
        optimizer.step()
    return [p.detach() for p in params], optimizer


def train_alone(folder, rules, dtype=torch.float32, compiled=False):
    generator = torch.Generator().manual_seed(0)

    def draw(shape, scale):
        return torch.randn(shape, generator=generator, dtype=torch.float64).mul(scale).to(dtype)

    params = [draw(shape, 1.0) for shape in SHAPES]
    gradients = [[draw(shape, 0.1) for shape in SHAPES] for _ in range(STEPS)]
    for step in gradients:
        step[0][::3] = 0.0
    names = {name: f"rule_{i}" for i, name in enumerate(rules)}
    for name, rule in rules.items():
        (folder / f"{names[name]}.py").write_text(export(rule, "Exported"))
    inputs = {"names": list(names.values()), "params": params, "gradients": gradients}
    torch.save(inputs, folder / "inputs.pt")
    way = "compile" if compiled else "eager"
    run = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", ALONE, str(folder), way],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    results = torch.load(folder / "results.pt", weights_only=True)
    return params, gradients, {name: results[module] for name, module in names.items()}


def agree(one, other, tolerance):
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.bfloat16, 2e-2)])
def test_zoo_rules_train_alike_without_optsmith(tmp_path, dtype, tolerance):
    every = dtype == torch.float64
    names = [name for name in (zoo if every else REPRESENTATIVES) if name != "muon"]  # needs roles
    rules = {name: zoo[name].rule for name in names}
    params, gradients, results = train_alone(tmp_path, rules, dtype)
    for name, rule in rules.items():
        expected, optimizer = reference(rule, params, gradients)
        trained, state_dict = results[name]
        agree(trained, expected, tolerance)
        # RuleOptimizer can load the state.
        restored = RuleOptimizer(
            [p.clone().requires_grad_() for p in params], rule, lr=1.0, total_steps=1
        )
        restored.load_state_dict(state_dict)
        for p, q in zip(restored.state.values(), optimizer.state.values(), strict=True):
            assert p["step"] == q["step"] == STEPS
            assert p.keys() == q.keys()


def test_the_compiled_path_trains_alike(tmp_path):
    rules = {name: zoo[name].rule for name in ("products1", "ppi")}
    # torch's compiler must not read the weights for the state after it has updated them.
    rules["modern"] = Rule.parse("ema(g)/sqrt(ema(g2)) + prev(w)*mix(2, g, 0.1) + max(w, 0.5)")
    params, gradients, results = train_alone(tmp_path, rules, compiled=True)
    for name, rule in rules.items():
        agree(results[name][0], reference(rule, params, gradients)[0], 2e-5)


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """Return a function that exports a rule and imports the class."""

    def load(text):
        path = tmp_path / "module_of_a_rule.py"
        path.write_text(export(Rule.parse(text), "Exported"))
        monkeypatch.syspath_prepend(tmp_path)
        sys.modules.pop("module_of_a_rule", None)
        import module_of_a_rule

        return module_of_a_rule.Exported

    return load


def test_state_dict_round_trip_continues_to_the_bit(exported):
    optimizer_class = exported("drop(m1)*ld + Adam")
    gradients = [torch.randn(9, dtype=torch.bfloat16) for _ in range(8)]

    def train(p, optimizer, part):
        for g in part:
            p.grad = g.clone()
            optimizer.step()

    whole = torch.zeros(9, dtype=torch.bfloat16, requires_grad=True)
    train(whole, optimizer_class([whole], lr=0.1, total_steps=8), gradients)
    half = torch.zeros(9, dtype=torch.bfloat16, requires_grad=True)
    first = optimizer_class([half], lr=0.1, total_steps=8)
    train(half, first, gradients[:4])
    second = optimizer_class([half], lr=0.7, total_steps=3)
    second.load_state_dict(first.state_dict())
    train(half, second, gradients[4:])
    assert torch.equal(whole, half)


def test_bad_input_to_an_exported_class(exported):
    optimizer_class = exported("ld*m1")
    p = torch.zeros(3, requires_grad=True)
    for wrong in ({"lr": -1.0}, {"weight_decay": -1.0}, {"total_steps": 0}):
        with pytest.raises(ValueError, match="must be"):
            optimizer_class([p], **{"lr": 1.0, "total_steps": 5, **wrong})
    optimizer = optimizer_class([p], lr=1.0, total_steps=1)
    p.grad = torch.ones(3)
    optimizer.step()
    with pytest.warns(UserWarning, match="beyond total_steps"):
        optimizer.step()
    other = exported("ld*g")
    with pytest.raises(ValueError, match="not saved with the rule"):
        other([p], lr=1.0, total_steps=1).load_state_dict(optimizer.state_dict())


TYPED = {
    "conv2.py": zoo["conv2"].rule,
    "modern.py": Rule.parse("ema(g)/sqrt(ema(g2)) + prev(w)*max(k, 2)"),
    "tensor.py": Rule.parse("whiten(drop(g), mom(g)) + aspect*orth(g) - rms(w)*rows(g)"),
    "by_role.py": Rule.parse("ld*hidden(fan*orth(mom(g)), drop(ema(g))) + 0.1*w"),
}


def test_files_are_typed_and_say_what_they_are(tmp_path):
    text = export(TYPED["conv2.py"])
    assert "class Conv2(torch.optim.Optimizer)" in text
    assert str(zoo["conv2"].rule) in text
    assert "8 bytes per float32 parameter" in text
    for name, rule in TYPED.items():
        (tmp_path / name).write_text(export(rule))
        assert "«" not in (tmp_path / name).read_text()
    mypy = pytest.importorskip("mypy.api")
    # With the repository's settings and cache, where torch has been analysed already.
    root = Path(__file__).parents[2]
    settings = ["--config-file", str(root / "pyproject.toml"), "--cache-dir", f"{root}/.mypy_cache"]
    out, _, status = mypy.run([*settings, "--strict", *(str(tmp_path / name) for name in TYPED)])
    assert status == 0, out


def scaled(x):
    if x.dtype.is_floating_point:  # a symbol has no dtype, so this is copied and not traced
        return 3 * x
    return x


def calling(x):
    return scaled(x) + later(x) if x.dtype.is_floating_point else x


def later(x):
    return sum(y.tanh() if scaled(y) is not None else later(y) for y in (x,))


def uniform(x):
    return x if x.dtype.is_floating_point else 2 * x


def distant(x):
    return STEPS * x if x.dtype.is_floating_point else x


def torchs(x, m, k):
    return (m + x,) if x.dtype.is_floating_point else (m,)


@pytest.fixture
def added():
    names = []

    def add(operator):
        operators.register(operator)
        names.append(operator.name)

    yield add
    for name in names:
        operators.remove(name)


def test_operators_of_users(tmp_path, added):
    added(Operator("tanh", 1, lambda x: x.tanh()))
    ema = State(("average",), lambda x, m, k: (0.9 * m + 0.1 * x,))
    added(Operator("own_ema", 1, lambda x, m, k: m / (1 - 0.9**k), state=ema))
    added(Operator("scaled", 1, scaled))
    added(Operator("calling", 1, calling))
    state = State(("total",), torchs, init=torch.ones_like)
    added(Operator("total", 1, lambda x, m, k: m, state=state))
    rules = {
        "mine": Rule.parse("tanh(own_ema(g)) + own_ema(own_ema(g2)) + scaled(m1)*total(calling(g))")
    }
    params, gradients, results = train_alone(tmp_path, rules, torch.float64)
    agree(results["mine"][0], reference(rules["mine"], params, gradients)[0], 1e-12)


def test_what_cannot_be_exported_is_refused(added):
    added(Operator("odd", 1, lambda x: x * (2 if x.dtype.is_floating_point else 1)))
    with pytest.raises(OptimizerError, match="define it with def"):
        export(Rule.parse("odd(g)"))
    ones = State(("memory",), lambda x, m, k: (m + x,), init=lambda x: x.new_ones(x.shape))
    added(Operator("sum", 1, lambda x, m, k: m, state=ones))
    with pytest.raises(OptimizerError, match="define it with def"):
        export(Rule.parse("sum(g)"))
    added(Operator("distant", 1, distant))
    with pytest.raises(OptimizerError, match="using only its arguments, torch and functions of"):
        export(Rule.parse("distant(g)"))
    added(Operator("noisy", 1, uniform))
    with pytest.raises(OptimizerError, match="files have a function uniform: rename"):
        export(Rule.parse("noisy(g)"))
    with pytest.raises(OptimizerError, match="is not a class name"):
        export(Rule.parse("g"), "not a name")


@pytest.fixture
def command(monkeypatch, capsys):
    """Return a function that runs `optsmith export` and returns exit code, output and errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["optsmith", "export", *arguments])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        return (code, *capsys.readouterr())

    return run


def test_the_command_writes_whole_files_and_nothing_else(tmp_path, command):
    path = tmp_path / "mine.py"
    assert command("products1", "-o", str(path), "--name", "Mine")[0] == 0
    written = path.read_text()
    assert "class Mine(torch.optim.Optimizer)" in written
    assert command("products1", "--name", "Mine")[1] == written
    for arguments, says in [
        (("sgd", "-o", str(path)), "--force"),
        (("sgd", "-o", str(tmp_path / "no" / "file.py")), "cannot write"),
        (("sgd", "--name", "not a name", "-o", str(tmp_path / "b.py")), "is not a class name"),
        (("m1 +", "-o", str(tmp_path / "b.py")), "operand is missing"),
    ]:
        code, _, errors = command(*arguments)
        assert code == 2
        assert errors.count("\n") == 1
        assert says in errors
    assert path.read_text() == written
    assert [p.name for p in tmp_path.iterdir()] == ["mine.py"]
    assert command("sgd", "-o", str(path), "--force")[0] == 0
    assert "class Sgd" in path.read_text()


def test_the_rule_is_readable_in_the_file():
    text = export(zoo["products1"].rule)
    assert "    momentum = g + momentum * 0.9\n" in text
    assert "    return momentum.sign() * ld - adam, (exp_avg, exp_avg_sq, momentum)\n" in text
