"""Rules as optimizers: programs, and the torch optimizer around them."""

from optsmith.optim._optimizer import RuleOptimizer
from optsmith.optim._program import Program

__all__ = ["Program", "RuleOptimizer"]
