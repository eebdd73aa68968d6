"""Baselines: torch's own optimizers and PGD, with the schedules that our rules carry inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from optsmith._errors import TaskError
from optsmith._registry import did_you_mean
from optsmith.optim._muon import MuonWithAdamW, check_muon
from optsmith.optim._roles import Parameters, parameters_of
from optsmith.optim._sign import SignDescent
from optsmith.rules import Rule

_TORCH = "torch:"
PGD = "pgd"
"""Projected gradient descent, what attacks are measured against; the projection is the task's."""

APGD = "apgd"
"""Auto-PGD, run by attack tasks themselves: it needs the loss of each image."""

ADAPTIVE = "adaptive"
"""The schedule of `apgd`, which adapts its own step sizes and has no learning rate."""

MUON = "muon"
"""Muon for hidden matrices, AdamW for the rest: it has to know the roles of parameters."""

_OPTIMIZERS: dict[str, tuple[type[Optimizer], dict[str, Any]]] = {
    "sgd": (SGD, {}),
    "momentum": (SGD, {"momentum": 0.9}),
    "nesterov": (SGD, {"momentum": 0.9, "nesterov": True}),
    "adam": (Adam, {}),
    "adamw": (AdamW, {}),
    "rmsprop": (RMSprop, {}),
    PGD: (SignDescent, {}),
    MUON: (MuonWithAdamW, {}),
}

# The decays of our rules, as functions of tau = t/(T + 1): a baseline without one is unfair.
_SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda tau: 1.0,
    "linear": lambda tau: 1.0 - tau,
    "cosine": lambda tau: 0.5 * (1.0 + math.cos(math.pi * tau)),
}

# The same as rules, where there are any: text, and a factor of the learning rate, as `Adam`
# and `RMSprop` carry one. Weight decay, where torch's default is not 0, is decoupled.
_AS_RULES: dict[str, tuple[str, float]] = {
    "sgd": ("g", 1.0),
    "momentum": ("m1", 1.0),
    "nesterov": ("g + 0.9*m1", 1.0),
    "adam": ("Adam", 1 / 3e-3),
    "adamw": ("Adam", 1 / 3e-3),
    "rmsprop": ("RMSprop", 1 / 3e-2),
    PGD: ("sign(g)", 1.0),
}
_DECAYS = {"constant": "1", "linear": "ld", "cosine": "cd"}
_WEIGHT_DECAY = {"adamw": 0.01}


@dataclass(frozen=True, slots=True)
class RuleForm:
    """A recipe as a rule: `p *= 1 - weight_decay * lr * decay`, `p -= lr * scale * rule`.

    Attributes:
        rule: The rule, its schedule included.
        scale: What the learning rate is multiplied by.
        weight_decay: Decoupled weight decay.
        decay: The schedule alone, which weight decay follows.
    """

    rule: Rule
    scale: float = 1.0
    weight_decay: float = 0.0
    decay: Rule | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """A known optimizer with a learning-rate schedule.

    `str` gives `torch:adam+cosine` for torch's own, `pgd+cosine`, and `apgd`.

    Attributes:
        optimizer: A name such as `adam`.
        schedule: `constant`, `linear` or `cosine`; `adaptive` for `apgd` alone.
    """

    optimizer: str
    schedule: str = "constant"

    @classmethod
    def parse(cls, text: str) -> Baseline:
        """Return the baseline that `torch:adam`, `torch:adam+linear`, `pgd` or `apgd` names.

        Raises:
            TaskError: There is no such optimizer or schedule.
        """
        if text == APGD:
            return cls(APGD, ADAPTIVE)
        optimizer, _, schedule = text.removeprefix(_TORCH).partition("+")
        if optimizer == APGD:
            raise TaskError(f'"{text}" must be "apgd": it adapts its own step sizes')
        for name, known in ((optimizer, _OPTIMIZERS), (schedule or "constant", _SCHEDULES)):
            if name not in known:
                hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
                raise TaskError(f'there is no baseline "{text}": "{name}" is unknown{hint}')
        if optimizer == MUON:
            check_muon()
        return cls(optimizer, schedule or "constant")

    def build(self, params: Parameters, lr: float, total_steps: int) -> Optimizer:
        """Return the optimizer, which follows its schedule by itself.

        Args:
            params: A module, parameters, named parameters, or groups of them.
            lr: Learning rate.
            total_steps: Length of the run.

        Raises:
            TaskError: It needs roles, which are those of a module or of groups with a `role`, or it
                is `apgd`, which is not an optimizer.
        """
        if not self.has_lr:
            raise TaskError(f"{self} attacks images and trains nothing: only attack tasks run it")
        kind, settings = _OPTIMIZERS[self.optimizer]
        given = params if self.optimizer == MUON else parameters_of(params)
        optimizer = kind(given, lr=lr, **settings)  # type: ignore[arg-type, call-arg]
        if self.schedule != "constant":
            _schedule(optimizer, _SCHEDULES[self.schedule], total_steps)
        return optimizer

    @property
    def has_lr(self) -> bool:
        """Whether there is a learning rate to tune."""
        return self.schedule != ADAPTIVE

    def as_rule(self) -> RuleForm | None:
        """Return the rule that does the same, up to rounding; None when there is none."""
        if self.optimizer not in _AS_RULES:
            return None
        text, scale = _AS_RULES[self.optimizer]
        decay = _DECAYS[self.schedule]
        whole = text if self.schedule == "constant" else f"{decay}*({text})"
        weight_decay = _WEIGHT_DECAY.get(self.optimizer, 0.0)
        return RuleForm(Rule.parse(whole), scale, weight_decay, Rule.parse(decay))

    def __str__(self) -> str:
        suffix = "" if self.schedule in ("constant", ADAPTIVE) else f"+{self.schedule}"
        return f"{'' if self.optimizer in (PGD, APGD) else _TORCH}{self.optimizer}{suffix}"


def is_baseline(text: str) -> bool:
    """Return whether a recipe's text is that of a baseline."""
    return text.startswith(_TORCH) or text.partition("+")[0].strip() in (PGD, APGD)


def with_schedules(*optimizers: str) -> Mapping[str, Baseline]:
    """Return optimizers with every schedule, by name."""
    every = [Baseline(optimizer, schedule) for optimizer in optimizers for schedule in _SCHEDULES]
    return {str(baseline): baseline for baseline in every}


def _schedule(optimizer: Optimizer, factor: Callable[[float], float], total_steps: int) -> None:
    """Set the learning rate of each step just before it.

    The groups hold the number of steps taken, `t`, so a `state_dict` carries the schedule.
    """
    for group in optimizer.param_groups:
        group["t"] = 0

    def advance(optimizer: Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            group["t"] = group.get("t", 0) + 1
            initial = group.setdefault("initial_lr", group["lr"])
            group["lr"] = initial * factor(min(group["t"], total_steps) / (total_steps + 1))

    optimizer.register_step_pre_hook(advance)


_BASELINES = [name for name in _OPTIMIZERS if name not in (PGD, MUON)]

baselines: Mapping[str, Baseline] = with_schedules(*_BASELINES)
"""Torch's optimizers with every schedule, by name: what training is measured against."""
