"""The size of a rule's updates on a task's first gradients, which says where its lr lies."""

from __future__ import annotations

import math
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from optsmith.optim import Baseline, Program, Recipe
from optsmith.rules import Rule
from optsmith.task import Run, Stage, Task

STEPS = 6
"""Gradients looked at; the first few updates of a rule with momentum are not its usual size."""

_TINY = 1e-12

_known: WeakKeyDictionary[Task, dict[object, tuple[list[list[Tensor]], float]]] = (
    WeakKeyDictionary()
)


def unit_lr(task: Task, recipe: Recipe, stage: Stage, device: torch.device) -> float | None:
    """Return the learning rate at which updates are as large as the weights.

    None when that cannot be said, since the updates are zero or not finite.
    """
    rule, scale = recipe, 1.0
    if isinstance(rule, Baseline):
        form = rule.as_rule()
        rule, scale = form.rule, form.scale
    gradients, weight = _first_gradients(task, stage, device)
    size = scale * _update_size(rule, gradients, stage)
    if not (0 < size < math.inf and 0 < weight < math.inf):
        return None
    unit = weight / size
    return unit if 0 < unit < math.inf else None


def _first_gradients(
    task: Task, stage: Stage, device: torch.device
) -> tuple[list[list[Tensor]], float]:
    """Return the gradients of the first steps of hardly moving weights, and the weights' size."""
    known = _known.setdefault(task, {})
    key = (stage.lr_seed, stage.final, device)
    if key not in known:
        known[key] = _look(task, stage, device)
    return known[key]


def _look(task: Task, stage: Stage, device: torch.device) -> tuple[list[list[Tensor]], float]:
    run = Run(Rule.parse("g"), _TINY, stage.lr_seed, STEPS, stage.final, device)
    gradients: list[list[Tensor]] = []
    squares, count = 0.0, 0
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(run.seed)
        training = task.start(run)
        for _ in range(STEPS):
            next(training)
            params = [p for o in run.built for group in o.param_groups for p in group["params"]]
            with_gradient = [p for p in params if p.grad is not None]
            gradients.append([p.grad.detach().clone() for p in with_gradient if p.grad is not None])
            squares = sum(float(p.detach().square().sum()) for p in with_gradient)
            count = sum(p.numel() for p in with_gradient)
        training.close()
    return gradients, math.sqrt(squares / max(count, 1))


def _update_size(rule: Rule, gradients: list[list[Tensor]], stage: Stage) -> float:
    """Return the root mean square of the last updates, of what is finite in them."""
    program = Program(rule)
    state = [program.init(g) for g in gradients[0]]
    squares, count = 0.0, 0
    for t, step in enumerate(gradients, start=1):
        if len(step) != len(state):
            return math.nan  # the set of parameters with gradients changes from step to step
        updates, state = program.update(step, state, t, stage.tune_steps)
        if t <= STEPS // 2:
            continue
        for update in updates:
            finite = update[torch.isfinite(update)].double()
            squares += float(finite.square().sum())
            count += finite.numel()
    return math.sqrt(squares / count) if count else math.nan
