"""Tasks from a module, data and a loss: the usual training loop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from optsmith._errors import TaskError
from optsmith.task._base import Metrics, Objective, Run, Task, Training
from optsmith.task._batches import Batches, batches
from optsmith.task._function import choose_presets
from optsmith.task._protocol import PAPER_LRS, Preset, Protocol

Measure = Callable[[Any, Any], Tensor]

CHECKPOINTS = 10
"""How often a run measures on the validation data, when that is its signal."""


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    """Return the share of rows whose largest output is the target."""
    return (output.argmax(dim=-1) == target).float().mean()


class ModuleTask(Task):
    """Trains a module on batches with a loss.

    The signal is the training loss of each step, unless there is validation data: then it is the
    metric there, measured ten times a run. In the final evaluation it is measured on the test data.

    Args:
        module: Makes a fresh model (its weights drawn from torch's generator, which is seeded); or
            a module, which every run starts from as it is.
        data: What to train on: a pair of tensors, or a loader of such pairs.
        loss: Of an output and a target: one number.
        steps: Optimizer steps of a full run.
        test: Data that only the final evaluation sees.
        validation: Data to score on during a search.
        metric: Of an output and a target: one number, a mean over examples; `accuracy`, say.
        direction: Whether the metric is to be minimized or maximized.
        batch_size: Examples a batch, for tensors.
        lrs: Learning-rate grid.
        protocol: How recipes are scored, instead of `steps` and `lrs`.
        presets: Named settings, instead of all three.
        name: For records.
        description: One line for people.
    """

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module],
        data: Any,
        loss: Measure,
        *,
        steps: int | None = None,
        test: Any = None,
        validation: Any = None,
        metric: Measure | None = None,
        direction: str = "maximize",
        batch_size: int = 128,
        lrs: tuple[float, ...] = PAPER_LRS,
        protocol: Protocol | None = None,
        presets: Mapping[str, Preset] | None = None,
        name: str = "module",
        description: str = "",
    ) -> None:
        if not isinstance(module, nn.Module) and not callable(module):
            raise TaskError("module is a torch module, or a function that makes one")
        if validation is not None and (metric is None or test is None):
            raise TaskError("validation data needs a metric to score, and test data for the end")
        self.module, self.loss, self.metric = module, loss, metric
        self.data = batches(data, batch_size)
        self.validation = None if validation is None else batches(validation, batch_size)
        self.test = None if test is None else batches(test, batch_size)
        self.metric_name = getattr(metric, "__name__", "metric").replace("_", " ")
        self.objective = Objective()
        if validation is not None:
            self.objective = Objective(self.metric_name, direction, "last")  # type: ignore[arg-type]
        self.presets = choose_presets(steps, protocol, presets, self.objective, lrs=tuple(lrs))
        self.name, self.description = name, description

    def make(self, device: torch.device) -> nn.Module:
        """Return a model at the start of a run."""
        made = copy.deepcopy(self.module) if isinstance(self.module, nn.Module) else self.module()
        return made.to(device)

    def start(self, run: Run) -> Training:
        """Train once."""
        model = self.make(run.device).train()
        optimizer = run.optimizer(model.parameters())
        for step, (inputs, target) in enumerate(self.data.train(run), start=1):
            optimizer.zero_grad()
            loss = self.loss(model(inputs), target)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if self.validation is None:
                yield loss.detach()
            else:
                yield self.check(model, run) if self.is_checkpoint(step, run.steps) else None
        return self.measure(model, run)

    def is_checkpoint(self, step: int, steps: int) -> bool:
        """Return whether the validation data are measured on after this step of a run."""
        return step % max(1, steps // CHECKPOINTS) == 0 or step == steps

    def check(self, model: nn.Module, run: Run) -> float:
        """Return the signal at a checkpoint: the metric on data that is not trained on."""
        held = self.test if run.final else self.validation
        if self.metric is None or held is None:
            raise TaskError("there is nothing to measure")
        return _means(model, [self.metric], held, run.device)[0]

    def measure(self, model: nn.Module, run: Run) -> Metrics:
        """Return what is measured at the end of a run."""
        if not run.final or self.test is None:
            return {}
        measures = {"test loss": self.loss}
        if self.metric is not None:
            measures[f"test {self.metric_name}"] = self.metric
        means = _means(model, list(measures.values()), self.test, run.device)
        return dict(zip(measures, means, strict=True))


def _means(
    model: nn.Module, measures: Sequence[Measure], data: Batches, device: torch.device
) -> list[float]:
    """Return the mean of each measure over all examples, the model in its evaluation mode."""
    was_training = model.training
    model.eval()
    totals, count = [0.0] * len(measures), 0
    with torch.no_grad():
        for inputs, target in data.once(device):
            output = model(inputs)
            for i, measure in enumerate(measures):
                totals[i] += float(measure(output, target)) * len(target)
            count += len(target)
    model.train(was_training)
    return [total / count for total in totals]
