"""Successive halving of the learning rates of one recipe, trained one run at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack

from optsmith.task import Run, Task
from optsmith.training._plain import LOOK, PausableRun, Trace
from optsmith.training._stopping import WORSE_HALF, Stopping

MOST_MEMORY = 256 << 20
"""Maximum bytes of parameters and optimizer state of paused runs in memory.

Above this, paused runs are checkpointed to temporary files in the directory chosen by Python's
`tempfile` (TMPDIR), and one model is in memory at a time. The results are the same.
"""


def race(task: Task, runs: Sequence[Run], stopping: Stopping) -> list[Trace]:
    """Train runs that differ only in their learning rate by successive halving.

    Each run is trained to the next rung and paused; then the worse half is stopped and the others
    continue. Runs without checkpoints are repeated from the start if memory is short.
    """
    steps = runs[0].steps
    looks = range(LOOK, steps + 1, LOOK)
    rungs = [step for step in looks if stopping.is_rung(step, step - LOOK, steps)]
    every = [PausableRun(task, run, stopping) for run in runs]
    going, is_large = every, False
    with ExitStack() as stack:
        for one in every:
            stack.callback(one.close)
        for rung in [*rungs, None] if len(runs) > 1 else [None]:
            for one in going:
                one.train(rung)
                is_large = is_large or len(runs) * one.memory() > MOST_MEMORY
                if one.trace is not None:
                    one.close()
                elif is_large:
                    # An unnamed file: deleted when it is closed or this process dies.
                    one.set_aside(tempfile.TemporaryFile())  # noqa: SIM115 - closed with the run
            going = [one for one in going if one.trace is None]
            for i in stopping.worse_half([one.signal for one in going]):
                going[i].end(WORSE_HALF)
                going[i].close()
            going = [one for one in going if one.trace is None]
    return [one.result() for one in every]
