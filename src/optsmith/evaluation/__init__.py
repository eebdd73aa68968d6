"""Scoring: a recipe on a task, by the stages of a protocol."""

from optsmith.evaluation._comparison import Comparison, frame, standard_errors
from optsmith.evaluation._evaluate import evaluate_recipe
from optsmith.evaluation._evaluation import Evaluation, GridPoint, Status, mean_and_spread
from optsmith.evaluation._train import Trace, train_once

__all__ = [
    "Comparison",
    "Evaluation",
    "GridPoint",
    "Status",
    "Trace",
    "evaluate_recipe",
    "frame",
    "mean_and_spread",
    "standard_errors",
    "train_once",
]
