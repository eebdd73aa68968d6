"""Baselines: torch's optimizers, PGD and APGD, with learning-rate schedules."""

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
"""Projected gradient descent, the baseline of attack tasks, which apply the projection."""

APGD = "apgd"
"""Auto-PGD, implemented by attack tasks because it needs the loss per image."""

ADAPTIVE = "adaptive"
"""The schedule of `apgd`, which adapts its step sizes and has no learning rate."""

MUON = "muon"
"""Muon for hidden matrices and AdamW for other parameters; requires the parameters' roles."""

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

# The decays of rules, as functions of tau = t/(T + 1), so that baselines can decay as rules do.
_SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda tau: 1.0,
    "linear": lambda tau: 1.0 - tau,
    "cosine": lambda tau: 0.5 * (1.0 + math.cos(math.pi * tau)),
}

# Equivalent rules, with the factor between learning rates, because the inputs `Adam` and `RMSprop`
# include a scale.
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
_WEIGHT_DECAY = {"adamw": 0.01}  # torch's default, decoupled


@dataclass(frozen=True, slots=True)
class RuleForm:
    """A recipe as a rule: `p *= 1 - weight_decay * lr * decay`, `p -= lr * scale * rule`.

    Attributes:
        rule: The rule, including the schedule.
        scale: Factor of the learning rate.
        weight_decay: Decoupled weight decay.
        decay: The schedule, which also multiplies the weight decay.
    """

    rule: Rule
    scale: float = 1.0
    weight_decay: float = 0.0
    decay: Rule | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """A known optimizer with a learning-rate schedule.

    Its text is, for example, `torch:adam+cosine`, `pgd+cosine` or `apgd`.

    Attributes:
        optimizer: A name such as `adam`.
        schedule: `constant`, `linear` or `cosine`; `adaptive` for `apgd` only.
    """

    optimizer: str
    schedule: str = "constant"

    @classmethod
    def parse(cls, text: str) -> Baseline:
        """Return the baseline of a text such as `torch:adam`, `torch:adam+linear` or `pgd`.

        Raises:
            TaskError: The optimizer or the schedule is unknown.
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
        """Return the optimizer, whose steps apply the schedule.

        Args:
            params: A module, parameters, named parameters, or parameter groups.
            lr: Learning rate.
            total_steps: Number of steps in the run.

        Raises:
            TaskError: The baseline is `torch:muon` and `params` has no roles (those of a module, or
                groups with a `role`), or it is `apgd`, which is not an optimizer.
        """
        if not self.has_lr:
            raise TaskError(f"{self} is not an optimizer: only attack tasks run it")
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
        """Return the equivalent rule (up to rounding), or None if there is none."""
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
    """Return whether the text of a recipe names a baseline."""
    return text.startswith(_TORCH) or text.partition("+")[0].strip() in (PGD, APGD)


def with_schedules(*optimizers: str) -> Mapping[str, Baseline]:
    """Return the baselines of these optimizers with every schedule, by name."""
    every = [Baseline(optimizer, schedule) for optimizer in optimizers for schedule in _SCHEDULES]
    return {str(baseline): baseline for baseline in every}


def _schedule(optimizer: Optimizer, factor: Callable[[float], float], total_steps: int) -> None:
    """Set the learning rate before each step.

    The number of steps is stored in the parameter groups as `t`, so it is part of `state_dict`.
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
"""Baselines of training tasks by name: torch's optimizers, each with every schedule."""
