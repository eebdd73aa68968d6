"""The optimizers of baselines, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from torch.optim import Optimizer

from optsmith._zoo import zoo
from optsmith.optim._muon import missing_muon
from optsmith.optim._roles import Parameters, parameters_of
from optsmith.optim._schedules import CLASSIC_SCHEDULES, MODERN_SCHEDULES
from optsmith.optim._switch import switching

PGD = "pgd"
"""Projected gradient descent, the baseline of attack tasks, which apply the projection."""

MUON = "muon"
"""Muon for hidden matrices and AdamW for other parameters; requires the parameters' roles."""

ScaledRule = tuple[str, float]
"""Text of a rule, and the factor between its learning rate and that of an optimizer."""


@dataclass(frozen=True, slots=True)
class KnownOptimizer:
    """A published optimizer with its authors' defaults.

    Attributes:
        title: Its name in publications, with settings that matter.
        path: Module and class, for example `torch.optim.AdamW`.
        settings: Settings other than the learning rate.
        rule: The equivalent rule, if there is one; it includes the weight decay.
        like: A rule whose updates have about the same size, by which learning rates are placed, if
            the equivalent rule does not serve: there is none, or its first updates are smaller than
            the others. None if no rule is like it, for example because updates are relative to the
            weights.
        schedules: Names of the schedules that it is compared with.
        takes_model: Whether it is constructed from a model instead of its parameters.
        package: Package on PyPI that provides it; empty for torch and Optsmith.
    """

    title: str
    path: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rule: ScaledRule | None = None
    like: ScaledRule | None = None
    schedules: tuple[str, ...] = MODERN_SCHEDULES
    takes_model: bool = False
    package: str = ""

    def missing(self) -> str:
        """Return why the optimizer is not available and what to install; empty if it is."""
        if self.path.endswith(".MuonWithAdamW"):
            return missing_muon()
        if self.package and find_spec(self.path.partition(".")[0]) is None:
            return "not installed (pip install 'optsmith[opponents]')"
        return ""

    def build(self, params: Parameters, lr: float, recipe: str) -> Optimizer:
        """Return the optimizer with a constant learning rate.

        Args:
            params: A module, parameters, named parameters, or parameter groups.
            lr: Learning rate.
            recipe: Text of the recipe, for error messages.

        Raises:
            TaskError: The optimizer requires the model, and `params` are bare parameters.
        """
        module, _, name = self.path.rpartition(".")
        kind: Callable[..., Any] = getattr(import_module(module), name)
        if hasattr(kind, "eval"):
            return switching(lambda p: kind(p, lr=lr, **self.settings), params, recipe)
        given = params if self.takes_model else parameters_of(params)
        made: Optimizer = kind(given, lr=lr, **self.settings)
        return made


_ADAM = ("Adam", 1 / 3e-3)  # the inputs `Adam` and `RMSprop` include a scale
_RMSPROP = ("RMSprop", 1 / 3e-2)
_UNSCHEDULED = ("constant", "warmup")


def _zoo_rule(name: str) -> ScaledRule:
    return zoo[name].text, 1.0


KNOWN: dict[str, KnownOptimizer] = {
    "sgd": KnownOptimizer("SGD", "torch.optim.SGD", rule=("g", 1.0)),
    "momentum": KnownOptimizer(
        "SGD with momentum 0.9", "torch.optim.SGD", {"momentum": 0.9}, rule=("m1", 1.0)
    ),
    "nesterov": KnownOptimizer(
        "SGD with Nesterov momentum 0.9",
        "torch.optim.SGD",
        {"momentum": 0.9, "nesterov": True},
        rule=("g + 0.9*m1", 1.0),
    ),
    "adam": KnownOptimizer("Adam", "torch.optim.Adam", rule=_ADAM),
    "adamw": KnownOptimizer(
        "AdamW (weight decay 0.01)",
        "torch.optim.AdamW",
        {"weight_decay": 0.01},
        rule=_zoo_rule("adamw"),
    ),
    "rmsprop": KnownOptimizer("RMSprop", "torch.optim.RMSprop", rule=_RMSPROP),
    "nadam": KnownOptimizer("NAdam", "torch.optim.NAdam", rule=_zoo_rule("nadam")),
    "radam": KnownOptimizer("RAdam", "torch.optim.RAdam", rule=_zoo_rule("radam"), like=_ADAM),
    "adafactor": KnownOptimizer("Adafactor", "torch.optim.Adafactor"),
    "optsmith:lion": KnownOptimizer(
        "Lion (betas 0.9 and 0.99)",
        "optsmith.optim.RuleOptimizer",
        {"rule": zoo["lion"].text},
        rule=_zoo_rule("lion"),
    ),
    MUON: KnownOptimizer(
        "Muon with AdamW",
        "optsmith.optim.MuonWithAdamW",
        rule=_zoo_rule("muon"),
        takes_model=True,
    ),
    "schedulefree:adamw": KnownOptimizer(
        "Schedule-Free AdamW",
        "schedulefree.AdamWScheduleFree",
        like=_ADAM,
        schedules=_UNSCHEDULED,
        package="schedulefree",
    ),
    "schedulefree:sgd": KnownOptimizer(
        "Schedule-Free SGD",
        "schedulefree.SGDScheduleFree",
        like=("g", 1.0),
        schedules=_UNSCHEDULED,
        package="schedulefree",
    ),
    # No warm-up: its own step size grows from 1e-6.
    "prodigyopt:prodigy": KnownOptimizer(
        "Prodigy", "prodigyopt.Prodigy", schedules=CLASSIC_SCHEDULES, package="prodigyopt"
    ),
    "pytorch_optimizer:soap": KnownOptimizer(
        "SOAP", "pytorch_optimizer.SOAP", like=_ADAM, package="pytorch_optimizer"
    ),
    PGD: KnownOptimizer("PGD", "optsmith.optim.SignDescent", rule=("sign(g)", 1.0)),
}


def find_optimizer(name: str) -> str | None:
    """Return the optimizer with a name such as `adam`, `torch:adam` or `lion`; None if unknown."""
    return _BY_NAME.get(name)


# `adamw` is torch's: the names of torch's optimizers come last.
_BY_NAME = {key.rpartition(":")[2]: key for key in KNOWN if ":" in key}
_BY_NAME |= {key: key for key in KNOWN}
_BY_NAME |= {f"torch:{key}": key for key in KNOWN if ":" not in key}
