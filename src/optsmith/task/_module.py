"""Tasks defined by a module, data and a loss, with a standard training loop."""

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
"""Default number of evaluations on the validation data per run."""


class ModuleTask(Task):
    """A task that trains a module on batches with a loss.

    The signal is the training loss of each step. If there is validation data, the signal is the
    metric on it instead, measured ten times per run or every `check_every` steps; in the final
    evaluation it is measured on the test data.

    Batches may be tensors, tuples, lists, mappings and named tuples of these, and any object with a
    method `to`, such as `BatchEncoding` of transformers and `Data` of PyTorch Geometric.

    - A tuple or list of length two is a pair (inputs, targets): the model is called with the
      inputs; loss and metric are called with its output and the targets.
    - For any other batch, the model is called with the whole batch (a mapping as keyword
      arguments); loss and metric are called with its output and the batch. `forward` overrides how
      the model is called.

    Means over several batches weight each batch by its number of examples: its `num_graphs`,
    `batch_size` or `num_nodes`, the length of its targets or first tensor, or its `len`.

    Args:
        module: Function that returns a new model, initialized with torch's seeded generator; or a
            module, which is copied at the start of every run.
        data: Training data. Tensors in memory with one row per example, which are shuffled and
            batched: a pair (inputs, targets), one tensor, a tuple or mapping of tensors. Or a
            loader: any iterable of batches, such as a list or a DataLoader.
        loss: Function of an output and a target that returns a scalar tensor.
        steps: Optimizer steps of a full run.
        test: Held-out data, used only in the final evaluation.
        validation: Data that scores rules during a search.
        metric: Metric measured in addition to the loss: a `Metric`, such as `accuracy`, or a
            function of an output and a target that returns one number, the mean over examples.
        direction: `minimize` or `maximize`; overrides the direction of the metric.
        batch_size: Examples per batch, for tensors.
        refit: Training data of final runs instead of `data`: usually `data` and the validation data
            together, in the same format. Such a task is not stacked.
        prepare: Function applied on the device to the inputs of each batch, or to the whole batch
            if it is not a pair, such as a conversion from bytes. It must be deterministic and
            serializable by pickle.
        forward: Function of the model and a batch that returns the output.
        clip_norm: Maximum norm of the gradients of all parameters; larger gradients are scaled
            down.
        accumulate: Batches per optimizer step; their gradients are averaged.
        groups: Function from the model to parameter groups in the format of torch's optimizers,
            such as `optsmith.decay_groups`. Groups cannot set the learning rate. A group's `role`
            overrides `optsmith.roles`.
        weight_decay: L2 penalty for every recipe: the weights times this are added to the
            gradients after clipping. A group's `weight_decay` replaces it; 0 there also disables
            the decay of recipes such as AdamW.
        precision: `bf16` or `fp16` for mixed precision with autocast; `fp16` needs a CUDA device.
        measure_size: Examples per batch in evaluation, for tensors.
        check_every: Steps between evaluations on the validation data.
        sparing: Whether short runs are evaluated on only as many examples as they were trained on
            (for tensors), so that evaluation does not take longer than training.
        lrs: Learning-rate grid.
        protocol: How recipes are scored, instead of `steps` and `lrs`.
        presets: Presets by name, instead of `steps`, `lrs` and `protocol`.
        name: Name of the task.
        description: Description in one line.

    Raises:
        TaskError: A setting is invalid.
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
            raise TaskError("module must be a torch module or a function that returns one")
        if validation is not None and (metric is None or test is None):
            raise TaskError("validation data also needs a metric and test data")
        if refit is not None and validation is None:
            raise TaskError(
                "refit needs validation data, which it adds to the training data of final runs"
            )
        if check_every is not None and check_every < 1:
            raise TaskError(f"check_every must be at least 1, not {check_every}")
        for setting, function in (("loss", loss), ("forward", forward), ("groups", groups)):
            if function is not None and not callable(function):
                raise TaskError(f"{setting} must be a function, not {function!r}")

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
        """Why the task cannot be trained in stacks of model copies; empty if it can."""
        if self.step_settings != StepSettings() or self.groups is not None:
            return (
                "clipping, accumulation, weight decay, groups and mixed precision are not supported"
            )
        if self.forward is not None:
            return "forward overrides how the model is called"
        if not isinstance(self.data, TensorBatches):
            return "the data comes from a loader, or is different in final runs"
        if not self.data.is_pair_of_tensors:
            return "batches are not pairs of tensors"
        return ""

    def make(self, device: torch.device) -> nn.Module:
        """Return a model with its initial weights."""
        made = copy.deepcopy(self.module) if isinstance(self.module, nn.Module) else self.module()
        return made.to(device)

    def start(self, run: Run) -> Training:
        """Return a training run, which supports checkpoints."""
        return ModuleTraining(self, run)

    def output_of(self, model: nn.Module, batch: Batch) -> Any:
        """Return the model's output for a batch."""
        return (self.forward or call_model)(model, batch)

    def loss_of(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the model's loss on a batch."""
        return self.loss(self.output_of(model, batch), target_of(batch))

    def is_checkpoint(self, step: int, steps: int) -> bool:
        """Return whether the validation data is evaluated after this step of a run."""
        every = self.check_every or max(1, steps // CHECKPOINTS)
        return step % every == 0 or step == steps

    def check(self, model: nn.Module, run: Run) -> float:
        """Return the metric on the validation data, or on the test data in final runs."""
        held = self.test if run.final else self.validation
        if self.metric is None or held is None:
            raise TaskError("the task has no metric or no data to measure it on")
        return self._means(model, run, held, [self.metric])[0]

    def measure(self, model: nn.Module, run: Run) -> Metrics:
        """Return the metrics on the test data; empty if the run is not final."""
        if not run.final or self.test is None:
            return {}
        means = self._means(model, run, self.test, list(self.metrics.values()))
        return dict(zip(self.metrics, means, strict=True))

    def _means(
        self, model: nn.Module, run: Run, data: Batches, measures: Sequence[Metric]
    ) -> list[float]:
        """Return the mean of each metric over examples, with the model in evaluation mode."""
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
    """Return the metrics measured on the test data, by name."""
    found = {"test loss": Metric("test loss", loss, "", "minimize", secondary=metric is not None)}
    if metric is not None:
        name = f"test {metric.name}"
        found[name] = replace(metric, name=name)
    return found


Task.from_module = staticmethod(checked(ModuleTask, "from_module"))  # type: ignore[assignment]
