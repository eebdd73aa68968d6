"""Evaluation of recipes on a task, by the stages of a protocol."""

from optsmith.evaluation._comparison import Comparison, frame, standard_errors
from optsmith.evaluation._evaluate import evaluate_recipe, evaluate_recipes
from optsmith.evaluation._evaluation import Evaluation, GridPoint, Status, mean_and_spread

__all__ = [
    "Comparison",
    "Evaluation",
    "GridPoint",
    "Status",
    "evaluate_recipe",
    "evaluate_recipes",
    "frame",
    "mean_and_spread",
    "standard_errors",
]
