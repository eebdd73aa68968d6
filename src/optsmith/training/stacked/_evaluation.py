"""Measurement of all copies of a stack on held-out data."""

from __future__ import annotations

import torch

from optsmith.task import ModuleTask, Run, TensorBatches
from optsmith.training.stacked._copies import Copies
from optsmith.training.stacked._gradients import Feed
from optsmith.training.stacked._losses import losses_of


class HeldOut:
    """Measures the signal of all copies of a stack, where a task measures it on held-out data.

    Args:
        task: The task.
    """

    def __init__(self, task: ModuleTask) -> None:
        assert task.measured is not None  # noqa: S101 - such tasks have no held-out signal
        self._task = task
        self._measure = losses_of(task.measured.function or task.measured)
        self._one_by_one = False

    def signals(self, copies: Copies, run: Run) -> list[float]:
        """Return what `task.check` returns for each copy, up to rounding.

        Args:
            copies: The copies.
            run: Any run of the stack.
        """
        data = self._task.held_out(run)
        if isinstance(data, TensorBatches) and data.is_pair_of_tensors and not self._one_by_one:
            try:
                return self._together(copies, run, data)
            except Exception:  # a user's metric may raise anything under vmap
                self._one_by_one = True
        return [self._task.check(copies.model(row), run) for row in range(len(copies))]

    @torch.no_grad()
    def _together(self, copies: Copies, run: Run, data: TensorBatches) -> list[float]:
        total, count = torch.zeros(len(copies), dtype=torch.float64, device=run.device), 0
        for inputs, targets in data.once(run.device, self._task.sample_size(run)):
            # The batches of a plain run, because the mean over a batch may be of some rows only;
            # as many copies at a time as take the memory of one copy on the largest batch.
            most = max(1, data.measure_size // len(targets))
            for start in range(0, len(copies), most):
                rows = slice(start, min(start + most, len(copies)))
                feed = Feed((rows.stop - start,), inputs.unsqueeze(0), targets.unsqueeze(0))
                total[rows] += self._measure(copies.outputs(inputs, rows), feed) * len(targets)
            count += len(targets)
        means: list[float] = (total / count).tolist()
        return means
