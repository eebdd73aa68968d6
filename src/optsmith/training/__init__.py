"""Training of runs, one at a time or in stacks of model copies."""

from optsmith.training._cost import ms_per_step, peak_memory
from optsmith.training._plain import LOOK, PausableRun, Trace, train_once
from optsmith.training._stopping import NOT_FINITE, Stopping
from optsmith.training._train import train
from optsmith.training.stacked import Stacking, choose_stacking

__all__ = [
    "LOOK",
    "NOT_FINITE",
    "PausableRun",
    "Stacking",
    "Stopping",
    "Trace",
    "choose_stacking",
    "ms_per_step",
    "peak_memory",
    "train",
    "train_once",
]
