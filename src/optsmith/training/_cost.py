"""What training costs: the time of a step, and memory."""

from __future__ import annotations

import math
import statistics
import sys
import time
from itertools import islice

import torch
from torch import Tensor

from optsmith.task import Run, Task
from optsmith.training._plain import seeded


def ms_per_step(task: Task, run: Run) -> float:
    """Return the median milliseconds of a step of a plain run: of a stack they would say nothing.

    What a task measures on held-out data now and then does not count, nor does the last step, where
    every task measures.
    """
    bare: list[float] = []
    measured: list[float] = []
    with seeded(run.seed, run.device):
        training = task.start(run)
        start = time.perf_counter()
        for value in islice(training, max(1, run.steps - 1)):
            if isinstance(value, Tensor):
                value.item()  # waits for the device
            elif run.device.type == "cuda":
                torch.cuda.synchronize(run.device)
            now = time.perf_counter()
            (bare if value is None else measured).append(now - start)
            start = now
        training.close()
    return statistics.median(bare or measured) * 1e3


def peak_memory(device: torch.device) -> float:
    """Return the bytes that this process, or torch on a GPU, has taken at most; NaN if unknown."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    try:
        import resource
    except ImportError:  # Windows
        return math.nan
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(used if sys.platform == "darwin" else used * 1024)
