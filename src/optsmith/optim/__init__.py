"""Rules as optimizers: programs, the torch optimizer around them, baselines, and export."""

from optsmith.optim._baselines import (
    Baseline,
    RuleForm,
    baselines,
    is_baseline,
    with_schedules,
)
from optsmith.optim._export import export
from optsmith.optim._optimizer import RuleOptimizer
from optsmith.optim._program import Program
from optsmith.optim._recipe import Recipe, build, form_of, parse_recipe, state_bytes

__all__ = [
    "Baseline",
    "Program",
    "Recipe",
    "RuleForm",
    "RuleOptimizer",
    "baselines",
    "build",
    "export",
    "form_of",
    "is_baseline",
    "parse_recipe",
    "state_bytes",
    "with_schedules",
]
