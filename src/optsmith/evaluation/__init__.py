"""Evaluation of recipes on a task, by the stages of a protocol."""

from optsmith.evaluation._claim import Ablation, Check, Claim
from optsmith.evaluation._comparison import Comparison, frame
from optsmith.evaluation._evaluate import evaluate_recipe, evaluate_recipes
from optsmith.evaluation._evaluation import Evaluation, GridPoint, Status, mean_and_spread
from optsmith.evaluation._paired import Paired, compare_evaluations, compare_paired, printed_in
from optsmith.evaluation._shown import named_or, shown
from optsmith.evaluation._speed_up import SpeedUp, speed_up

__all__ = [
    "Ablation",
    "Check",
    "Claim",
    "Comparison",
    "Evaluation",
    "GridPoint",
    "Paired",
    "SpeedUp",
    "Status",
    "compare_evaluations",
    "compare_paired",
    "evaluate_recipe",
    "evaluate_recipes",
    "frame",
    "mean_and_spread",
    "named_or",
    "printed_in",
    "shown",
    "speed_up",
]
