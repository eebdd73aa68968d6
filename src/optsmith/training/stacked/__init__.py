"""Stacked training: several runs trained together as copies of one model."""

from optsmith.training.stacked._choose import choose_stacking
from optsmith.training.stacked._stack import Stack, train_stack
from optsmith.training.stacked._stacking import Stacking, stacks

__all__ = ["Stack", "Stacking", "choose_stacking", "stacks", "train_stack"]
