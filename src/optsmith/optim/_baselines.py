"""Baselines: torch's own optimizers and PGD, with the schedules that our rules carry inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from torch.optim.lr_scheduler import LambdaLR

from optsmith._errors import TaskError
from optsmith._registry import did_you_mean
from optsmith.optim._sign import SignDescent
from optsmith.rules import Rule

_TORCH = "torch:"
PGD = "pgd"
"""Projected gradient descent, what attacks are measured against; the projection is the task's."""

_OPTIMIZERS: dict[str, tuple[type[Optimizer], dict[str, Any]]] = {
    "sgd": (SGD, {}),
    "momentum": (SGD, {"momentum": 0.9}),
    "nesterov": (SGD, {"momentum": 0.9, "nesterov": True}),
    "adam": (Adam, {}),
    "adamw": (AdamW, {}),
    "rmsprop": (RMSprop, {}),
    PGD: (SignDescent, {}),
}

# The decays of our rules, as functions of tau = t/(T + 1): a baseline without one is unfair.
_SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda tau: 1.0,
    "linear": lambda tau: 1.0 - tau,
    "cosine": lambda tau: 0.5 * (1.0 + math.cos(math.pi * tau)),
}

# The same as rules: text, and what the learning rate is multiplied by, as `Adam` and `RMSprop`
# carry a factor. Weight decay, where torch's default is not 0, is decoupled.
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

    `str` gives `torch:adam+cosine` for torch's own, and `pgd+cosine`.

    Attributes:
        optimizer: A name such as `adam`.
        schedule: `constant`, `linear` or `cosine`.
    """

    optimizer: str
    schedule: str = "constant"

    @classmethod
    def parse(cls, text: str) -> Baseline:
        """Return the baseline that `torch:adam`, `torch:adam+linear` or `pgd` names.

        Raises:
            TaskError: There is no such optimizer or schedule.
        """
        optimizer, _, schedule = text.removeprefix(_TORCH).partition("+")
        for name, known in ((optimizer, _OPTIMIZERS), (schedule or "constant", _SCHEDULES)):
            if name not in known:
                hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
                raise TaskError(f'there is no baseline "{text}": "{name}" is unknown{hint}')
        return cls(optimizer, schedule or "constant")

    def build(self, params: Iterable[Tensor], lr: float, total_steps: int) -> Optimizer:
        """Return the optimizer; its schedule goes on by itself at each step."""
        kind, settings = _OPTIMIZERS[self.optimizer]
        optimizer = kind(params, lr=lr, **settings)  # type: ignore[call-arg]
        if self.schedule != "constant":
            _schedule(optimizer, _SCHEDULES[self.schedule], total_steps)
        return optimizer

    def as_rule(self) -> RuleForm:
        """Return the rule that does the same, up to rounding."""
        text, scale = _AS_RULES[self.optimizer]
        decay = _DECAYS[self.schedule]
        whole = text if self.schedule == "constant" else f"{decay}*({text})"
        weight_decay = _WEIGHT_DECAY.get(self.optimizer, 0.0)
        return RuleForm(Rule.parse(whole), scale, weight_decay, Rule.parse(decay))

    def __str__(self) -> str:
        suffix = "" if self.schedule == "constant" else f"+{self.schedule}"
        return f"{'' if self.optimizer == PGD else _TORCH}{self.optimizer}{suffix}"


def is_baseline(text: str) -> bool:
    """Return whether a recipe's text is that of a baseline."""
    return text.startswith(_TORCH) or text.partition("+")[0].strip() == PGD


def with_schedules(*optimizers: str) -> Mapping[str, Baseline]:
    """Return optimizers with every schedule, by name."""
    every = [Baseline(optimizer, schedule) for optimizer in optimizers for schedule in _SCHEDULES]
    return {str(baseline): baseline for baseline in every}


def _schedule(optimizer: Optimizer, factor: Callable[[float], float], total_steps: int) -> None:
    scheduler = LambdaLR(
        optimizer, lambda done: factor(min(done + 1, total_steps) / (total_steps + 1))
    )

    def advance(*_: Any) -> None:
        scheduler.step()

    optimizer.register_step_post_hook(advance)


baselines: Mapping[str, Baseline] = with_schedules(*(name for name in _OPTIMIZERS if name != PGD))
"""Torch's optimizers with every schedule, by name: what training is measured against."""
