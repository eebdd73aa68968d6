"""Recipes: rules and baselines, from which optimizers are built."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from optsmith._zoo import named_rule
from optsmith.optim._baselines import Baseline, RuleForm, is_baseline
from optsmith.optim._optimizer import RuleOptimizer
from optsmith.optim._roles import Parameters
from optsmith.rules import Rule

Recipe = Rule | Baseline
"""A rule, or a baseline."""


def parse_recipe(text: str) -> Recipe:
    """Return the recipe of a text: a rule, a name in the zoo, or a baseline such as `torch:adam`.

    Raises:
        OptsmithError: The text is not a recipe, or the baseline is not installed.
    """
    if not is_baseline(text):
        return named_rule(text)
    baseline = Baseline.parse(text)
    baseline.check()
    return baseline


def form_of(recipe: Recipe) -> RuleForm | None:
    """Return a recipe as a rule, or None for a baseline that has no equivalent rule."""
    return recipe.as_rule() if isinstance(recipe, Baseline) else RuleForm(recipe)


def size_form(recipe: Recipe) -> RuleForm | None:
    """Return a rule with updates of about the same size as the recipe's, if there is one."""
    return recipe.sized_like() if isinstance(recipe, Baseline) else RuleForm(recipe)


def has_lr(recipe: Recipe) -> bool:
    """Return whether a recipe has a learning rate to tune; only `apgd` has none."""
    return not isinstance(recipe, Baseline) or recipe.has_lr


def build(
    recipe: Recipe, params: Parameters, lr: float, total_steps: int, seed: int = 0
) -> Optimizer:
    """Return a new optimizer for one run.

    Args:
        recipe: The rule or baseline.
        params: A module, parameters, named parameters, or parameter groups.
        lr: Learning rate.
        total_steps: Number of steps in the run.
        seed: Seed of `drop` masks.

    Raises:
        OptsmithError: The recipe does not support these parameters.
    """
    if isinstance(recipe, Baseline):
        return recipe.build(params, lr, total_steps)
    return RuleOptimizer(params, recipe, lr=lr, total_steps=total_steps, seed=seed)


def state_bytes(optimizer: Optimizer) -> float:
    """Return the bytes of optimizer state per parameter."""
    count = sum(p.numel() for group in optimizer.param_groups for p in group["params"])
    total = sum(_bytes(value) for state in optimizer.state.values() for value in state.values())
    return float(total / max(count, 1))


def _bytes(value: Any) -> int:
    """Return the bytes of a tensor with dimensions, or of a list of tensors such as SOAP's."""
    if isinstance(value, list | tuple):
        return sum(map(_bytes, value))
    return int(value.nbytes) if isinstance(value, Tensor) and value.ndim else 0
