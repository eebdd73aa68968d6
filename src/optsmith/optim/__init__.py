"""Rules as optimizers: programs, the torch optimizer around them, baselines, and export."""

from optsmith.optim._baselines import PREFIX, Baseline, baselines
from optsmith.optim._export import export
from optsmith.optim._optimizer import RuleOptimizer
from optsmith.optim._program import Program
from optsmith.optim._recipe import Recipe, build, parse_recipe, state_bytes

__all__ = [
    "PREFIX",
    "Baseline",
    "Program",
    "Recipe",
    "RuleOptimizer",
    "baselines",
    "build",
    "export",
    "parse_recipe",
    "state_bytes",
]
