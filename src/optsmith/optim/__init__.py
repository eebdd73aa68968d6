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
from optsmith.optim._roles import Parameters, decay_groups, parameters_of, roles, with_roles

__all__ = [
    "Baseline",
    "Parameters",
    "Program",
    "Recipe",
    "RuleForm",
    "RuleOptimizer",
    "baselines",
    "build",
    "decay_groups",
    "export",
    "form_of",
    "is_baseline",
    "parameters_of",
    "parse_recipe",
    "roles",
    "state_bytes",
    "with_roles",
    "with_schedules",
]
