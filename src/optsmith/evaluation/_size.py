"""The size of a recipe's updates on a task's first gradients, which places its learning rate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from optsmith._cache import ObjectCache
from optsmith._errors import TaskError
from optsmith.optim import HIDDEN, Program, Recipe, RuleForm, size_form
from optsmith.rules import Rule, for_role
from optsmith.task import Run, Stage, Task, seeded

STEPS = 6
"""Gradients looked at; the first few updates of a rule with momentum are not its usual size."""

_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """The gradients of the first steps of a task, on weights that hardly move.

    Attributes:
        gradients: Those of each step, one per parameter.
        weights: The parameters.
        hidden: Whether each parameter is a hidden matrix; False if roles are not known.
    """

    gradients: list[list[Tensor]]
    weights: list[Tensor]
    hidden: list[bool]

    @property
    def size(self) -> float:
        """Root mean square of the weights."""
        squares = sum(float(w.square().sum()) for w in self.weights)
        return math.sqrt(squares / max(sum(w.numel() for w in self.weights), 1))


_first: ObjectCache[FirstSteps] = ObjectCache()

_BY_ROLE = Rule.parse("hidden(g, g)")
"""Plain descent that needs to know the roles of parameters."""


def unit_lr(task: Task, recipe: Recipe, stage: Stage, device: torch.device) -> float | None:
    """Return the learning rate at which updates are as large as the weights.

    None when there is no such rate: the updates are zero or not finite, or the recipe is a
    baseline that resembles no rule.
    """
    form = size_form(recipe)
    if form is None:
        return None
    first = _first.get(
        task, (stage.lr_seed, device), lambda: _first_steps(task, stage.lr_seed, device)
    )
    size, weight = form.scale * _update_size(form, first, stage), first.size
    if not (0 < size < math.inf and 0 < weight < math.inf):
        return None
    unit = weight / size
    return unit if 0 < unit < math.inf else None


def _first_steps(task: Task, seed: int, device: torch.device) -> FirstSteps:
    for rule in (_BY_ROLE, Rule.parse("g")):
        # Never `final`: a learning rate must not be placed by data held out for the report.
        run = Run(rule, _TINY, seed, STEPS, final=False, device=device)
        try:
            return _record(task, run)
        except TaskError:
            if rule is not _BY_ROLE:
                raise
    raise AssertionError("plain descent returns or raises")


def _record(task: Task, run: Run) -> FirstSteps:
    gradients: list[list[Tensor]] = []
    trained: list[tuple[Tensor, bool]] = []
    with seeded(run.seed, run.device):
        training = task.start(run)
        for _ in range(STEPS):
            next(training)
            trained = [
                (p, group.get("role") == HIDDEN)
                for optimizer in run.built
                for group in optimizer.param_groups
                for p in group["params"]
                if p.grad is not None
            ]
            gradients.append([p.grad.detach().clone() for p, _ in trained if p.grad is not None])
        training.close()
    weights = [p.detach().clone() for p, _ in trained]
    return FirstSteps(gradients, weights, [is_hidden for _, is_hidden in trained])


def _update_size(form: RuleForm, first: FirstSteps, stage: Stage) -> float:
    """Return the root mean square of the finite entries of the last updates."""
    squares, count = 0.0, 0
    for is_hidden in (True, False):
        chosen = [i for i, hidden in enumerate(first.hidden) if hidden == is_hidden]
        if not chosen:
            continue
        if any(len(step) != len(first.hidden) for step in first.gradients):
            return math.nan  # the set of parameters with gradients changes from step to step
        program = Program(for_role(form.rule, is_hidden))
        weights = [first.weights[i] for i in chosen]
        state = [program.init(w) for w in weights]
        for t, every in enumerate(first.gradients, start=1):
            step = [every[i] for i in chosen]
            updates, state = program.update(step, state, t, stage.tune_steps, 0, weights)
            if t <= STEPS // 2:
                continue
            for update in updates:
                finite = update[torch.isfinite(update)].double()
                squares += float(finite.square().sum())
                count += finite.numel()
    return math.sqrt(squares / count) if count else math.nan
