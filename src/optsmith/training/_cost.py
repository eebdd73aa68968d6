"""Measurement of the time per training step and of peak memory."""

from __future__ import annotations

import math
import re
import statistics
import sys
import time
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from optsmith.task import Run, Task, seeded


def ms_per_step(task: Task, run: Run) -> float:
    """Return the median milliseconds per step of a plain run.

    Steps at which the task evaluates its validation or test data are excluded, and so is the last
    step, at which every task may do so.
    """
    bare: list[float] = []
    measured: list[float] = []
    with seeded(run.seed, run.device):
        training = task.start(run)
        start = time.perf_counter()
        for value in islice(training, max(1, run.steps - 1)):
            if isinstance(value, Tensor):
                value.item()  # synchronizes with the device
            elif run.device.type == "cuda":
                torch.cuda.synchronize(run.device)
            now = time.perf_counter()
            (bare if value is None else measured).append(now - start)
            start = now
        training.close()
    return statistics.median(bare or measured) * 1e3


def peak_memory(device: torch.device) -> float:
    """Return the peak memory in bytes of this process, or of torch on a GPU; NaN if unknown."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    # Not getrusage on Linux: a process inherits that peak from its parent.
    status = Path("/proc/self/status")
    if status.exists():
        peak = re.search(r"^VmHWM:\s*(\d+) kB", status.read_text(), re.MULTILINE)
        return math.nan if peak is None else 1024.0 * int(peak[1])
    try:
        import resource
    except ImportError:  # Windows
        return math.nan
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(used if sys.platform == "darwin" else used * 1024)
