"""Training: the seam between what is to be trained and how it is done."""

from __future__ import annotations

from collections.abc import Sequence

from optsmith.evaluation._plain import LOOK, Trace, race, train_once
from optsmith.evaluation._stackable import stacks
from optsmith.evaluation._stacked import train_stack
from optsmith.evaluation._stopping import Stopping
from optsmith.task import ModuleTask, Run, Task

__all__ = ["LOOK", "Trace", "train", "train_once"]


def train(task: Task, runs: Sequence[Run], stopping: Stopping) -> list[Trace]:
    """Train, as stacks of model copies where that works and pays, one by one otherwise.

    Either way gives the same traces, up to rounding; `stopping` ends runs early. The way is a
    function of the task and the runs alone, never of timings or of what else the machine does: the
    same call gives the same numbers to the bit, and the order of the runs does not matter.

    With `stopping.halving` the runs are alike but for the learning rate.
    """
    traces: dict[int, Trace] = {}
    together = stacks(task, runs)
    if stopping.halving and all(len(members) == 1 for members in together):
        return race(task, runs, stopping)
    for members in together:
        chosen = [runs[i] for i in members]
        if isinstance(task, ModuleTask) and len(chosen) > 1:
            done = train_stack(task, chosen, stopping)
        else:
            done = [train_once(task, run, stopping) for run in chosen]
        traces.update(zip(members, done, strict=True))
    return [traces[i] for i in range(len(runs))]
