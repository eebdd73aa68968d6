"""The size of a recipe's updates on a task's first gradients, which places its learning rate."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from optsmith._cache import ObjectCache
from optsmith.optim import Program, Recipe, RuleForm, size_form
from optsmith.rules import Rule
from optsmith.task import Run, Stage, Task, seeded

STEPS = 6
"""Gradients looked at; the first few updates of a rule with momentum are not its usual size."""

_TINY = 1e-12

Gradients = list[list[Tensor]]
"""The gradients of each step."""

_first: ObjectCache[tuple[Gradients, float]] = ObjectCache()


def unit_lr(task: Task, recipe: Recipe, stage: Stage, device: torch.device) -> float | None:
    """Return the learning rate at which updates are as large as the weights.

    None when there is no such rate: the updates are zero or not finite, or the recipe is a
    baseline that resembles no rule.
    """
    form = size_form(recipe)
    if form is None:
        return None
    # Never `final`: a learning rate must not be placed by data held out for the report.
    run = Run(Rule.parse("g"), _TINY, stage.lr_seed, STEPS, final=False, device=device)
    gradients, weight = _first.get(task, (stage.lr_seed, device), lambda: _gradients(task, run))
    size = form.scale * _update_size(form, gradients, stage)
    if not (0 < size < math.inf and 0 < weight < math.inf):
        return None
    unit = weight / size
    return unit if 0 < unit < math.inf else None


def _gradients(task: Task, run: Run) -> tuple[Gradients, float]:
    """Return the gradients of the first steps of hardly moving weights, and the weights' size."""
    gradients: Gradients = []
    squares, count = 0.0, 0
    with seeded(run.seed, run.device):
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


def _update_size(form: RuleForm, gradients: Gradients, stage: Stage) -> float:
    """Return the root mean square of the finite entries of the last updates."""
    program = Program(form.rule)
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
