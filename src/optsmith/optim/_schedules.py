"""Learning-rate schedules of baselines: functions of the share of the run that is over."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.optim import Optimizer

WARMUP = 0.1
"""Share of a run in which warm-up raises the learning rate from 0; the default of `wc`."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A learning-rate schedule.

    Attributes:
        factor: Factor of the learning rate at `tau = t/(T + 1)`, for step t of T, counted from 1.
        expression: The same in Python, as an expression of `tau`.
        decay: The same as a rule; empty if there is none.
        words: Description in a few words.
    """

    factor: Callable[[float], float]
    expression: str
    decay: str
    words: str


def _cosine(tau: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * tau))


def _warmup_cosine(tau: float) -> float:
    return tau / WARMUP if tau < WARMUP else _cosine((tau - WARMUP) / (1 - WARMUP))


SCHEDULES: dict[str, Schedule] = {
    "constant": Schedule(lambda tau: 1.0, "1.0", "1", "constant learning rate"),
    "linear": Schedule(lambda tau: 1.0 - tau, "1.0 - tau", "ld", "linear decay to 0"),
    "cosine": Schedule(_cosine, "0.5 * (1.0 + math.cos(math.pi * tau))", "cd", "cosine decay to 0"),
    "warmup-cosine": Schedule(
        _warmup_cosine,
        f"tau / {WARMUP} if tau < {WARMUP}"
        f" else 0.5 * (1.0 + math.cos(math.pi * ((tau - {WARMUP}) / {1 - WARMUP})))",
        "wc",
        f"warm-up over {WARMUP:.0%} of the run, then cosine decay to 0",
    ),
    "warmup": Schedule(
        lambda tau: min(1.0, tau / WARMUP),
        f"min(1.0, tau / {WARMUP})",
        "",
        f"warm-up over {WARMUP:.0%} of the run",
    ),
}

CLASSIC_SCHEDULES = ("constant", "linear", "cosine")
MODERN_SCHEDULES = (*CLASSIC_SCHEDULES, "warmup-cosine")

_STEP = "schedule_step"


def apply_schedule(optimizer: Optimizer, schedule: Schedule, total_steps: int) -> None:
    """Set the learning rate before each step.

    The number of steps is stored in the parameter groups, so it is part of `state_dict`.
    """
    for group in optimizer.param_groups:
        group[_STEP] = 0

    def advance(optimizer: Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            group[_STEP] = group.get(_STEP, 0) + 1
            initial = group.setdefault("initial_lr", group["lr"])
            tau = min(group[_STEP], total_steps) / (total_steps + 1)
            group["lr"] = initial * schedule.factor(tau)

    optimizer.register_step_pre_hook(advance)


def lambda_lr(schedule: Schedule) -> str:
    """Return the schedule as Python code for `optimizer` and `total_steps`.

    The scheduler's `step` must be called after each step of the optimizer. The code uses `math`
    and `torch`; a constant schedule needs no code.
    """
    if schedule.expression == "1.0":
        return ""
    tau = "(t + 1) / (total_steps + 1)"
    expression = schedule.expression.replace("tau", f"({tau})")
    return f"torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: {expression})"
