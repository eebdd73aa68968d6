"""Scoring: a recipe on a task, by the stages of a protocol."""

from optsmith.evaluation._choose_stacking import choose_stacking
from optsmith.evaluation._comparison import Comparison, frame, standard_errors
from optsmith.evaluation._evaluate import evaluate_recipe, evaluate_recipes
from optsmith.evaluation._evaluation import Evaluation, GridPoint, Status, mean_and_spread
from optsmith.evaluation._stacking import Stacking
from optsmith.evaluation._train import Trace, train_once

__all__ = [
    "Comparison",
    "Evaluation",
    "GridPoint",
    "Stacking",
    "Status",
    "Trace",
    "choose_stacking",
    "evaluate_recipe",
    "evaluate_recipes",
    "frame",
    "mean_and_spread",
    "standard_errors",
    "train_once",
]
