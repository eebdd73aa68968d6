"""Exports a baseline as the source of a function that makes the optimizer with its schedule."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module

from optsmith._errors import OptimizerError
from optsmith._version import __version__
from optsmith.optim import _muon
from optsmith.optim._baselines import Baseline
from optsmith.optim._export import TUNED, export, rule_source
from optsmith.optim._export_roles import roles_source
from optsmith.optim._muon import MuonWithAdamW
from optsmith.optim._optimizer import RuleOptimizer
from optsmith.optim._recipe import Recipe
from optsmith.optim._schedules import SCHEDULES
from optsmith.optim._template import fill, make_source
from optsmith.rules import Rule


def export_recipe(recipe: Recipe, name: str | None = None, lr: float | None = None) -> str:
    """Return the source of a file with a function `make_optimizer(model, lr, total_steps)`.

    The file requires only torch, and the optimizer's package if that is another one. Its optimizer
    trains as the recipe does here.

    Args:
        recipe: The rule or baseline.
        name: Name of the class of a rule; by default, the rule's name in the zoo or FoundRule.
        lr: A tuned learning rate, which becomes the default.

    Raises:
        OptsmithError: The recipe cannot be exported, or the name is not a class name.
    """
    if isinstance(recipe, Rule):
        return export(recipe, name, lr)
    if name is not None:
        raise OptimizerError(f"{recipe} is not a rule: its file has no class to name")
    return _export_baseline(recipe, lr)


def _export_baseline(baseline: Baseline, lr: float | None) -> str:
    if not baseline.has_lr:
        raise OptimizerError(f"{baseline} is not an optimizer: only attack tasks run it")
    baseline.check()
    known, schedule = baseline.known, SCHEDULES[baseline.schedule]
    module, _, title = known.path.rpartition(".")
    kind = getattr(import_module(module), title)
    ours = module.startswith("optsmith.")
    settings, factor = dict(known.settings), ""
    rule = settings.pop("rule", None) if kind is RuleOptimizer else None
    if baseline.schedule != "constant":
        factor = schedule.expression
    constructor = title if ours else known.path
    if rule:
        constructor = baseline.optimizer.rpartition(":")[2].capitalize()
    words = ["model" if known.takes_model else "params", "lr=lr"]
    words += [f"{name}={value!r}" for name, value in settings.items()]
    make = make_source(
        f"{constructor}({', '.join(words)})",
        lr,
        factor=factor,
        needs_model=known.takes_model,
        switches=hasattr(kind, "eval"),
    )
    if rule:
        about = f"{baseline}: {baseline.describe()}. "
        return rule_source(Rule.parse(rule), constructor, lr, make, about)
    classes = ""
    if kind is MuonWithAdamW:
        classes = _muon_source()
    elif ours:
        classes = inspect.getsource(kind)
    parts = {
        "recipe": str(baseline),
        "description": baseline.describe(),
        "effect": "; its steps apply the schedule" if factor else "",
        "version": __version__,
        "requires": f"torch and {known.package}" if known.package else "torch",
        "notes": f"Learning rate: {'tune it by powers of 3' if lr is None else TUNED}.",
        "imports": _imports(f"{classes}\n{make}", module if known.package else ""),
        "classes": classes,
        "make": make,
    }
    return fill("baseline_template.py.txt", parts)


_FROM = {
    "defaultdict": "collections",
    **dict.fromkeys(("Callable", "Iterable", "Mapping"), "collections.abc"),
    "Any": "typing",
    **dict.fromkeys(("Tensor", "nn", "optim"), "torch"),
    "UninitializedParameter": "torch.nn.parameter",
    **dict.fromkeys(("AdamW", "Optimizer"), "torch.optim"),
}


def _imports(source: str, package: str) -> str:
    """Return the imports of a source; `package` is the module of a third party's optimizer."""
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    lines = [f"import {name}" for name in ("math", "weakref", "torch") if name in names]
    lines += [f"import {package}"] if package else []
    for module in dict.fromkeys(_FROM.values()):
        if used := sorted(name for name in names if _FROM.get(name) == module):
            lines.append(f"from {module} import {', '.join(used)}")
    outside = [line for line in lines if "torch" in line or (package and package in line)]
    return "\n".join([*(line for line in lines if line not in outside), "", *outside])


def _muon_source() -> str:
    """Return the source of Muon with AdamW and of the roles of parameters."""
    source = "\n\n".join(inspect.getsource(part) for part in (MuonWithAdamW, _muon._matrix))
    constants = f'NAME = "{_muon.NAME}"\nWEIGHT_DECAY = {_muon.WEIGHT_DECAY!r}'
    return f"{constants}\n{roles_source()}\n\n{source}".replace("TaskError", "ValueError")
