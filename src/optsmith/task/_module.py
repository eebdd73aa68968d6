"""Tasks from a module, data and a loss: the usual training loop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from optsmith._errors import TaskError
from optsmith.task._base import Metrics, Run, Task, Training, checked
from optsmith.task._batch import Batch, Forward, call_model, size_of, target_of
from optsmith.task._batches import RefitBatches, batches
from optsmith.task._function import choose_presets
from optsmith.task._groups import Groups
from optsmith.task._loop import ModuleTraining, StepSettings
from optsmith.task._metric import Measure, Metric, Objective, as_metric
from optsmith.task._protocol import PAPER_LRS, Preset, Protocol
from optsmith.task._source import Batches, Prepare
from optsmith.task._tensors import TensorBatches

Loss = Callable[[Any, Any], Tensor]

CHECKPOINTS = 10
"""How often a run measures on the validation data, when that is its signal."""


class ModuleTask(Task):
    """Trains a module on batches with a loss.

    The signal is the training loss of each step, unless there is validation data: then it is the
    metric there, measured ten times per run or every `check_every` steps. In the final evaluation
    it is measured on the test data.

    Batches may be anything that can be moved to a device: tensors, tuples, lists, mappings, named
    tuples of these, and objects with a method `to`, such as the `BatchEncoding` of transformers and
    the `Data` of PyTorch Geometric.

    - A tuple or list of two is (inputs, targets): the model is called with the inputs, and loss and
      metric with its output and the targets.
    - With any other batch, the model is called with the whole batch (a mapping as keyword
      arguments), and loss and metric with its output and the batch. `forward` calls it otherwise.

    Means over several batches count each example once: how many a batch has is its `num_graphs`,
    `batch_size` or `num_nodes`, the length of its targets or first tensor, or its `len`.

    Args:
        module: Makes a fresh model (its weights drawn from torch's generator, which is seeded); or
            a module, which every run starts from as it is.
        data: What to train on. Tensors in memory with one row per example, which are shuffled and
            batched: a pair (inputs, targets), one tensor, a tuple or mapping of tensors. Or a
            loader: any iterable of batches, such as a list or a DataLoader.
        loss: Of an output and a target: one number.
        steps: Optimizer steps of a full run.
        test: Data that only the final evaluation sees.
        validation: Data to score on during a search.
        metric: What is measured besides the loss: a `Metric`, such as `accuracy`, or a function of
            an output and a target that returns one number, a mean over examples.
        direction: Whether the metric is to be minimized or maximized; by default what it declares.
        batch_size: Examples per batch, for tensors.
        refit: What final runs train on instead of `data`: usually that and the validation data, in
            the same form. Such a task is trained one run at a time.
        prepare: Applied to the inputs of each batch on the device, such as a conversion of bytes;
            to the whole batch, if it is not a pair. A function that can be pickled, without
            randomness.
        forward: Calls the model: a function of the model and a batch that returns the output.
        clip_norm: Largest norm of the gradients of all parameters together; larger ones are scaled
            down to it.
        accumulate: Batches per optimizer step; their gradients are averaged.
        groups: Function from the model to parameter groups as torch's optimizers take them, such as
            `optsmith.decay_groups`. The learning rate is not theirs to set. A `role` overrides that
            of `optsmith.roles`.
        weight_decay: L2 penalty, the same for every recipe: this times the weights is added to
            their gradients, after clipping. A group's own replaces it; 0 there also switches off
            the decay that a recipe has of its own, as AdamW does.
        precision: `bf16` or `fp16` for mixed precision by autocast; `fp16` needs a CUDA device.
        measure_size: Examples per batch when measuring, for tensors.
        check_every: Steps between measurements on the validation data.
        sparing: Whether short runs are measured on the first examples only, as many as they have
            trained on (for tensors); then measuring never takes longer than training.
        lrs: Learning-rate grid.
        protocol: How recipes are scored, instead of `steps` and `lrs`.
        presets: Named settings, instead of all three.
        name: For records.
        description: One line for people.

    Raises:
        TaskError: A setting makes no sense.
    """

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module],
        data: Any,
        loss: Loss,
        *,
        steps: int | None = None,
        test: Any = None,
        validation: Any = None,
        metric: Metric | Measure | None = None,
        direction: str | None = None,
        batch_size: int = 128,
        refit: Any = None,
        prepare: Prepare | None = None,
        forward: Forward | None = None,
        clip_norm: float | None = None,
        accumulate: int = 1,
        groups: Groups | None = None,
        weight_decay: float = 0.0,
        precision: str | None = None,
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
        if refit is not None and validation is None:
            raise TaskError("refit adds validation data to what final runs train on; there is none")
        if check_every is not None and check_every < 1:
            raise TaskError(f"check_every must be at least 1, not {check_every}")
        for setting, function in (("loss", loss), ("forward", forward), ("groups", groups)):
            if function is not None and not callable(function):
                raise TaskError(f"{setting} is a function, not {function!r}")

        def read(given: Any) -> Batches:
            return batches(given, batch_size, prepare, measure_size)

        self.module, self.loss = module, loss
        self.metric = None if metric is None else as_metric(metric, direction)
        self.forward, self.groups = forward, groups
        self.step_settings = StepSettings(clip_norm, accumulate, weight_decay, precision)
        self.data = read(data) if refit is None else RefitBatches(read(data), read(refit))
        self.validation = None if validation is None else read(validation)
        self.test = None if test is None else read(test)
        self.check_every, self.batch_size, self.sparing = check_every, batch_size, sparing
        self.objective = Objective()
        if validation is not None and self.metric is not None:
            self.objective = Objective(
                self.metric.name, self.metric.direction, "last", self.metric.unit
            )
        self.metrics = {} if test is None else _test_metrics(loss, self.metric)
        self.presets = choose_presets(steps, protocol, presets, self.objective, lrs=tuple(lrs))
        self.name, self.description = name, description

    @property
    def not_stackable(self) -> str:
        """Why stacks of model copies cannot train the task; empty when they can."""
        if self.step_settings != StepSettings() or self.groups is not None:
            return "clipping, accumulation, decay, groups and precision are not stacked"
        if self.forward is not None:
            return "the model is called in a way of its own"
        if not isinstance(self.data, TensorBatches):
            return "the data come from a loader, or differ in the final evaluation"
        if not self.data.is_pair_of_tensors:
            return "batches are not pairs of tensors"
        return ""

    def make(self, device: torch.device) -> nn.Module:
        """Return a model at the start of a run."""
        made = copy.deepcopy(self.module) if isinstance(self.module, nn.Module) else self.module()
        return made.to(device)

    def start(self, run: Run) -> Training:
        """Train once."""
        return ModuleTraining(self, run)

    def output_of(self, model: nn.Module, batch: Batch) -> Any:
        """Return the model's output for a batch."""
        return (self.forward or call_model)(model, batch)

    def loss_of(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the model's loss on a batch."""
        return self.loss(self.output_of(model, batch), target_of(batch))

    def is_checkpoint(self, step: int, steps: int) -> bool:
        """Return whether the validation data are measured on after this step of a run."""
        every = self.check_every or max(1, steps // CHECKPOINTS)
        return step % every == 0 or step == steps

    def check(self, model: nn.Module, run: Run) -> float:
        """Return the signal at a checkpoint: the metric on data that is not trained on."""
        held = self.test if run.final else self.validation
        if self.metric is None or held is None:
            raise TaskError("there is nothing to measure")
        return self._means(model, run, held, [self.metric])[0]

    def measure(self, model: nn.Module, run: Run) -> Metrics:
        """Return what is measured at the end of a run."""
        if not run.final or self.test is None:
            return {}
        means = self._means(model, run, self.test, list(self.metrics.values()))
        return dict(zip(self.metrics, means, strict=True))

    def _means(
        self, model: nn.Module, run: Run, data: Batches, measures: Sequence[Metric]
    ) -> list[float]:
        """Return the mean of each measure over examples, the model in its evaluation mode."""
        most = run.steps * self.batch_size if self.sparing else None
        was_training = model.training
        model.eval()
        totals, count = [0.0] * len(measures), 0
        with torch.no_grad(), self.step_settings.autocast(run.device):
            for batch in data.once(run.device, most):
                output, target = self.output_of(model, batch), target_of(batch)
                size = size_of(batch)
                for i, measure in enumerate(measures):
                    totals[i] += float(measure(output, target)) * size
                count += size
        model.train(was_training)
        return [total / count for total in totals]


def _test_metrics(loss: Loss, metric: Metric | None) -> dict[str, Metric]:
    """Return what is measured on the test data, by name."""
    found = {"test loss": Metric("test loss", loss, "", "minimize", secondary=metric is not None)}
    if metric is not None:
        name = f"test {metric.name}"
        found[name] = replace(metric, name=name)
    return found


Task.from_module = staticmethod(checked(ModuleTask, "from_module"))  # type: ignore[assignment]
