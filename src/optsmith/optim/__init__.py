"""Optimizers: compiled rules and their back ends, `RuleOptimizer`, baselines, and export."""

from optsmith.optim._backend import Backend
from optsmith.optim._baselines import Baseline, RuleForm, is_baseline
from optsmith.optim._export import export
from optsmith.optim._export_baseline import export_recipe
from optsmith.optim._exported import exported_rule
from optsmith.optim._machine import PlanRunner
from optsmith.optim._muon import MuonWithAdamW
from optsmith.optim._optimizer import RuleOptimizer
from optsmith.optim._plan import Plan, Step, addcmul
from optsmith.optim._program import Program, math_dtype
from optsmith.optim._recipe import (
    Recipe,
    build,
    form_of,
    has_lr,
    parse_recipe,
    size_form,
    state_bytes,
)
from optsmith.optim._roles import (
    HIDDEN,
    Parameters,
    decay_groups,
    hidden_parameters,
    parameters_of,
    roles,
    with_roles,
)
from optsmith.optim._sets import (
    baselines_text,
    by_likelihood,
    classic,
    find_baselines,
    modern,
    with_schedules,
)
from optsmith.optim._sign import SignDescent
from optsmith.optim._switch import evaluation_weights
from optsmith.optim._uniforms import uniforms

__all__ = [
    "HIDDEN",
    "Backend",
    "Baseline",
    "MuonWithAdamW",
    "Parameters",
    "Plan",
    "PlanRunner",
    "Program",
    "Recipe",
    "RuleForm",
    "RuleOptimizer",
    "SignDescent",
    "Step",
    "addcmul",
    "baselines_text",
    "build",
    "by_likelihood",
    "classic",
    "decay_groups",
    "evaluation_weights",
    "export",
    "export_recipe",
    "exported_rule",
    "find_baselines",
    "form_of",
    "has_lr",
    "hidden_parameters",
    "is_baseline",
    "math_dtype",
    "modern",
    "parameters_of",
    "parse_recipe",
    "roles",
    "size_form",
    "state_bytes",
    "uniforms",
    "with_roles",
    "with_schedules",
]
