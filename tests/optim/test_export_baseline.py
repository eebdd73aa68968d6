"""Exported baselines require only torch, and train as the baselines do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from optsmith import OptimizerError, OptsmithError
from optsmith.optim import Baseline, build, export_recipe, modern, parse_recipe
from optsmith.optim._schedules import SCHEDULES

STEPS = 50

# Runs in a process where optsmith cannot be imported.
ALONE = """
import importlib.util, json, sys, torch
sys.modules["optsmith"] = None
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
from model_and_data import make_model, train
results = {}
for name, file in json.loads(sys.argv[2]).items():
    spec = importlib.util.spec_from_file_location(file, f"{sys.argv[1]}/{file}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file] = module
    spec.loader.exec_module(module)
    model = make_model()
    results[name] = train(model, module.make_optimizer(model, total_steps=50))
torch.save(results, f"{sys.argv[1]}/results.pt")
"""


class Model(nn.Module):
    """Has parameters of every role."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 6)
        self.convolution = nn.Conv1d(6, 5, 3, padding=1)
        self.hidden = weight_norm(nn.Linear(5, 5))
        self.norm = nn.LayerNorm(5)
        self.output = nn.Linear(5, 3)

    def forward(self, x):
        h = self.convolution(self.embedding(x).mT).mT
        return self.output(self.norm(self.hidden(h.relu()))).mean(1)


def make_model():
    torch.manual_seed(0)
    return Model()


def train(model, optimizer):
    data = torch.Generator().manual_seed(1)
    for _ in range(50):
        x = torch.randint(9, (4, 7), generator=data)
        optimizer.zero_grad()
        (model(x) - 1).square().mean().backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def shared_source():
    """Return the model and its training as a module that does not import optsmith."""
    import inspect

    parts = [inspect.getsource(part) for part in (Model, make_model, train)]
    imports = (
        "import torch\nfrom torch import nn\n"
        "from torch.nn.utils.parametrizations import weight_norm\n"
    )
    return "\n\n".join([imports, *parts])


def train_alone(folder, names):
    files = {name: f"baseline_{i}" for i, name in enumerate(names)}
    for name, file in files.items():
        (folder / f"{file}.py").write_text(export_recipe(parse_recipe(name), lr=0.01))
    (folder / "model_and_data.py").write_text(shared_source())
    run = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", ALONE, str(folder), json.dumps(files)],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return torch.load(folder / "results.pt", weights_only=True)


def test_every_baseline_repeats_its_numbers_without_optsmith(tmp_path):
    names = [name for name, baseline in modern.items() if not baseline.missing]
    names.append("pgd+cosine")
    results = train_alone(tmp_path, names)
    torch.set_num_threads(1)
    for name in names:
        model = make_model()
        expected = train(model, build(parse_recipe(name), model, lr=0.01, total_steps=STEPS))
        assert torch.equal(results[name], expected), name


@pytest.mark.parametrize("recipe", ["ld*sign(m1) - Adam", "m1", "drop(g)*cd"])
def test_make_optimizer_of_a_rule(tmp_path, recipe):
    rule = parse_recipe(recipe)
    found = train_alone(tmp_path, [recipe])[recipe]
    model = make_model()
    expected = train(model, build(rule, model, lr=0.01, total_steps=STEPS))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that exports a recipe and imports the file."""

    def load(recipe, **settings):
        path = tmp_path / "module_of_a_recipe.py"
        parsed = parse_recipe(recipe) if isinstance(recipe, str) else recipe
        path.write_text(export_recipe(parsed, **settings))
        monkeypatch.syspath_prepend(tmp_path)
        sys.modules.pop("module_of_a_recipe", None)
        import module_of_a_recipe

        return module_of_a_recipe

    return load


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_schedule_is_that_of_the_baseline(module, name):
    if name == "constant":
        assert not hasattr(module("torch:sgd"), "schedule")
        return
    schedule = module(Baseline("sgd", name)).schedule
    for t in range(1, 100):
        assert schedule(t / 100) == SCHEDULES[name].factor(t / 100)


@pytest.mark.parametrize("recipe", ["torch:adam+cosine", "ld*m1", "optsmith:lion+linear"])
def test_the_length_of_the_run_is_required_by_decays(module, recipe):
    p = [torch.zeros(3, requires_grad=True)]
    with pytest.raises(TypeError, match="total_steps"):
        module(recipe).make_optimizer(p, lr=0.1)
    for wrong in ({}, {"total_steps": 0}, {"total_steps": 2.5}):
        with pytest.raises(ValueError, match="total_steps must be a positive whole number"):
            module(recipe, lr=0.1).make_optimizer(p, **wrong)


def test_a_tuned_learning_rate_is_the_default(module):
    p = [torch.zeros(3, requires_grad=True)]
    assert module("torch:adam", lr=0.25).make_optimizer(p).param_groups[0]["lr"] == 0.25
    assert module("m1", lr=0.25).make_optimizer(p).param_groups[0]["lr"] == 0.25
    for recipe in ("torch:adam", "m1"):
        with pytest.raises(TypeError, match="lr"):
            module(recipe).make_optimizer(p)


def test_the_schedule_is_saved_with_the_state(module):
    make = module("torch:momentum+linear").make_optimizer
    gradients = torch.randn(8, 3)

    def steps(p, optimizer, part):
        for g in part:
            p.grad = g.clone()
            optimizer.step()

    whole, half = (torch.zeros(3, requires_grad=True) for _ in range(2))
    steps(whole, make([whole], lr=0.1, total_steps=8), gradients)
    first = make([half], lr=0.1, total_steps=8)
    steps(half, first, gradients[:4])
    second = make([half], lr=0.7, total_steps=8)
    second.load_state_dict(first.state_dict())
    steps(half, second, gradients[4:])
    assert torch.equal(whole, half)


def test_what_cannot_be_exported_is_refused():
    with pytest.raises(OptimizerError, match="only attack tasks run it"):
        export_recipe(Baseline.parse("apgd"))
    with pytest.raises(OptimizerError, match="no class to name"):
        export_recipe(Baseline.parse("torch:adam"), name="Mine")


def test_muon_requires_the_model(module):
    if Baseline("muon").missing:
        pytest.skip("torch has no Muon")
    with pytest.raises(ValueError, match="pass the model"):
        module("torch:muon").make_optimizer([torch.zeros(3, 3)], lr=0.1)


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("optsmith.optim._known.find_spec", lambda _: None)
    with pytest.raises(OptsmithError, match="schedulefree:adamw is not available"):
        export_recipe(Baseline.parse("schedulefree:adamw"))


def test_an_optimizer_of_another_package(tmp_path, monkeypatch):
    """The package is imported, and weights follow the mode of the model."""
    (tmp_path / "schedulefree.py").write_text(
        "import torch\n"
        "class AdamWScheduleFree(torch.optim.SGD):\n"
        "    mode = ''\n"
        "    def train(self): self.mode = 'train'\n"
        "    def eval(self): self.mode = 'eval'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "schedulefree", raising=False)
    text = export_recipe(Baseline.parse("schedulefree:adamw"), lr=0.5)
    assert "requires only torch and schedulefree" in text
    space = {}
    exec(text.replace("from __future__ import annotations", ""), space)  # noqa: S102
    model = nn.Linear(2, 1)
    optimizer = space["make_optimizer"](model)
    assert optimizer.mode == "train"
    model.eval()(torch.ones(1, 2))
    assert optimizer.mode == "eval"
    optimizer.step()
    assert optimizer.mode == "train"
    monkeypatch.delitem(sys.modules, "schedulefree", raising=False)


def test_files_are_typed(tmp_path):
    mypy = pytest.importorskip("mypy.api")
    paths = []
    names = ["torch:adamw+cosine", "optsmith:lion+warmup-cosine", "torch:muon+linear", "pgd"]
    for i, name in enumerate(names):
        text = export_recipe(parse_recipe(name), lr=0.1)
        assert "«" not in text
        assert f"{name}: " in text
        paths.append(tmp_path / f"file_{i}.py")
        paths[-1].write_text(text)
    root = Path(__file__).parents[2]
    settings = ["--config-file", str(root / "pyproject.toml"), "--cache-dir", f"{root}/.mypy_cache"]
    out, _, status = mypy.run([*settings, "--strict", *map(str, paths)])
    assert status == 0, out
