"""Training of a list of runs with the chosen stacking."""

from __future__ import annotations

from collections.abc import Sequence

from optsmith.optim import Recipe
from optsmith.task import ModuleTask, Run, Task
from optsmith.training._plain import Trace
from optsmith.training._race import race
from optsmith.training._stopping import Stopping
from optsmith.training.stacked._stack import train_stack
from optsmith.training.stacked._stacking import Stacking, stacks


def train(task: Task, runs: Sequence[Run], stopping: Stopping, stacking: Stacking) -> list[Trace]:
    """Return the traces of runs, trained in stacks of model copies or one at a time.

    Both give the same traces up to rounding. Equal calls give bitwise equal results, and the order
    of the runs does not matter.
    """
    traces: dict[int, Trace] = {}
    alone: list[int] = []
    for members in stacks(stacking, runs):
        if isinstance(task, ModuleTask) and len(members) > 1:
            done = train_stack(task, [runs[i] for i in members], stopping)
            traces.update(zip(members, done, strict=True))
        else:
            alone += members
    for members in _races(runs, alone, stopping):
        done = race(task, [runs[i] for i in members], stopping)
        traces.update(zip(members, done, strict=True))
    return [traces[i] for i in range(len(runs))]


def _races(runs: Sequence[Run], alone: Sequence[int], stopping: Stopping) -> list[list[int]]:
    """Return the groups of runs to halve: those that differ only in their learning rate."""
    if not stopping.halving:
        return [[i] for i in alone]
    rivals: dict[tuple[Recipe, int], list[int]] = {}
    for i in alone:
        rivals.setdefault((runs[i].recipe, runs[i].seed), []).append(i)
    return list(rivals.values())
