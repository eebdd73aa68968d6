"""Tasks from a module, data and a loss: the usual training loop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from optsmith._errors import TaskError
from optsmith.task._base import Metrics, Objective, Run, Task, Training
from optsmith.task._batches import Batch, Batches, Prepare, RefitBatches, TensorBatches, batches
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
    metric there, measured ten times a run or every `check_every` steps. In the final evaluation it
    is measured on the test data.

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
        refit: What final runs train on instead of `data`: usually that and the validation data, in
            the same form. Such a task is trained one run at a time.
        prepare: Applied to the inputs of each batch on the device, such as a conversion of bytes;
            a function that can be pickled, without randomness.
        measure_size: Examples a batch when measuring, for tensors.
        check_every: Steps between measurements on the validation data.
        sparing: Whether short runs are measured on the first examples only, as many as they have
            trained on (for tensors); then measuring never takes longer than training.
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
        refit: Any = None,
        prepare: Prepare | None = None,
        measure_size: int = TensorBatches.MEASURE,
        check_every: int | None = None,
        sparing: bool = False,
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
        if refit is not None and validation is None:
            raise TaskError("refit adds validation data to what final runs train on; there is none")
        if check_every is not None and check_every < 1:
            raise TaskError(f"check_every must be at least 1, not {check_every}")

        def read(given: Any) -> Batches:
            return batches(given, batch_size, prepare, measure_size)

        self.data = read(data) if refit is None else RefitBatches(read(data), read(refit))
        self.validation = None if validation is None else read(validation)
        self.test = None if test is None else read(test)
        self.check_every, self.batch_size, self.sparing = check_every, batch_size, sparing
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
            model.zero_grad()  # the optimizer's would import torch.compile first: seconds
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
        every = self.check_every or max(1, steps // CHECKPOINTS)
        return step % every == 0 or step == steps

    def _most(self, run: Run) -> int | None:
        """Return how many examples a run is measured on; None: all."""
        return run.steps * self.batch_size if self.sparing else None

    def check(self, model: nn.Module, run: Run) -> float:
        """Return the signal at a checkpoint: the metric on data that is not trained on."""
        held = self.test if run.final else self.validation
        if self.metric is None or held is None:
            raise TaskError("there is nothing to measure")
        return _means(model, [self.metric], held.once(run.device, self._most(run)))[0]

    def measure(self, model: nn.Module, run: Run) -> Metrics:
        """Return what is measured at the end of a run."""
        if not run.final or self.test is None:
            return {}
        measures = {"test loss": self.loss}
        if self.metric is not None:
            measures[f"test {self.metric_name}"] = self.metric
        examples = self.test.once(run.device, self._most(run))
        means = _means(model, list(measures.values()), examples)
        return dict(zip(measures, means, strict=True))


def _means(model: nn.Module, measures: Sequence[Measure], examples: Iterable[Batch]) -> list[float]:
    """Return the mean of each measure over all examples, the model in its evaluation mode."""
    was_training = model.training
    model.eval()
    totals, count = [0.0] * len(measures), 0
    with torch.no_grad():
        for inputs, target in examples:
            output = model(inputs)
            for i, measure in enumerate(measures):
                totals[i] += float(measure(output, target)) * len(target)
            count += len(target)
    model.train(was_training)
    return [total / count for total in totals]
