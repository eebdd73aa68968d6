"""Optimizers: compiled rules and their back ends, `RuleOptimizer`, baselines, and export."""

from optsmith.optim._backend import Backend
from optsmith.optim._baselines import (
    Baseline,
    RuleForm,
    baselines,
    is_baseline,
    with_schedules,
)
from optsmith.optim._export import export
from optsmith.optim._machine import PlanRunner
from optsmith.optim._optimizer import RuleOptimizer
from optsmith.optim._plan import Plan, Step
from optsmith.optim._program import Program, math_dtype
from optsmith.optim._recipe import Recipe, build, form_of, has_lr, parse_recipe, state_bytes
from optsmith.optim._roles import Parameters, decay_groups, parameters_of, roles, with_roles
from optsmith.optim._uniforms import uniforms

__all__ = [
    "Backend",
    "Baseline",
    "Parameters",
    "Plan",
    "PlanRunner",
    "Program",
    "Recipe",
    "RuleForm",
    "RuleOptimizer",
    "Step",
    "baselines",
    "build",
    "decay_groups",
    "export",
    "form_of",
    "has_lr",
    "is_baseline",
    "math_dtype",
    "parameters_of",
    "parse_recipe",
    "roles",
    "state_bytes",
    "uniforms",
    "with_roles",
    "with_schedules",
]
