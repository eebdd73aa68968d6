"""Rules as optimizers: programs, the torch optimizer around them, and export."""

from optsmith.optim._export import export
from optsmith.optim._optimizer import RuleOptimizer
from optsmith.optim._program import Program

__all__ = ["Program", "RuleOptimizer", "export"]
