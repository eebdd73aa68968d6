"""Tasks defined by a module, data and a loss, with a standard training loop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
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
from optsmith.task._preset import Preset
from optsmith.task._protocol import PAPER_LRS, Protocol
from optsmith.task._random import seeded
from optsmith.task._signal import checkpoints, choose_signal, sample_size, test_metrics
from optsmith.task._source import Batches, Prepare
from optsmith.task._split import share_of, split
from optsmith.task._tensors import TensorBatches

Loss = Callable[[Any, Any], Tensor]


class ModuleTask(Task):
    """A task that trains a module on batches with a loss.

    The score of a run is the mean over its last tenth of the metric on the validation data, or of
    the loss if there is no metric. It is measured there five times, and ten times before. Final
    runs are measured on the test data instead. During a search, measurements of short runs use a
    fixed random sample of the validation data.

    Validation and test data that are not given are split off from the training data, a tenth each;
    the task's `notes` say so. With `objective="training loss"` nothing is split off, and the score
    is the mean training loss of all steps.

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
        objective: What the score is: `validation loss`, `validation` and the name of the metric
            (the default, if there is one) or `training loss`; or an `Objective` of such a name,
            which also says which part of the run counts.
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
        check_every: Steps between measurements on the validation data, instead of the default.
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
        objective: Objective | str | None = None,
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
        lrs: tuple[float, ...] = PAPER_LRS,
        protocol: Protocol | None = None,
        presets: Mapping[str, Preset] | None = None,
        name: str = "module",
        description: str = "",
    ) -> None:
        if not isinstance(module, nn.Module) and not callable(module):
            raise TaskError("module must be a torch module or a function that returns one")
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
        self.objective, self.measured = choose_signal(objective, loss, self.metric)
        self.data = read(data) if refit is None else RefitBatches(read(data), read(refit))
        self.validation = None if validation is None else read(validation)
        self.test = None if test is None else read(test)
        if self.measured is not None:
            self.data, self.validation, self.test, self.notes = split(
                self.data, self.validation, self.test
            )
        self.check_every, self.batch_size = check_every, batch_size
        self.metrics = {} if self.test is None else test_metrics(loss, self.metric, self.objective)
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

    def subset(self, share: float) -> ModuleTask:
        """Return the same task with a fixed random share of its training data."""
        part = copy.copy(self)
        part.data = share_of(self.data, share)
        part.notes = (*self.notes, f"{100 * share:g} % of the training data are used")
        return part

    def is_checkpoint(self, step: int, steps: int) -> bool:
        """Return whether the held-out data is measured after this step of a run."""
        return step in checkpoints(steps, self.check_every)

    def held_out(self, run: Run) -> Batches:
        """Return the data on which the signal of a run is measured."""
        held = self.test if run.final else self.validation
        if held is None:
            raise TaskError("the task has no held-out data")
        return held

    def sample_size(self, run: Run) -> int | None:
        """Return the number of examples of one measurement of a run; None for all."""
        if run.final:
            return None
        examples = run.steps * self.step_settings.accumulate * self.data.batch_size
        return sample_size(examples, len(checkpoints(run.steps, self.check_every)))

    def check(self, model: nn.Module, run: Run) -> float:
        """Return the signal of a model: on the validation data, in final runs on the test data."""
        if self.measured is None:
            raise TaskError("the signal of the task is its training loss")
        held = self.held_out(run)
        return self._means(model, run, held, [self.measured], self.sample_size(run))[0]

    def measure(self, model: nn.Module, run: Run) -> Metrics:
        """Return the metrics on the test data; empty if the run is not final."""
        if not run.final or self.test is None:
            return {}
        means = self._means(model, run, self.test, list(self.metrics.values()))
        return dict(zip(self.metrics, means, strict=True))

    def _means(
        self,
        model: nn.Module,
        run: Run,
        data: Batches,
        measures: Sequence[Metric],
        most: int | None = None,
    ) -> list[float]:
        """Return the mean of each metric over examples, with the model in evaluation mode."""
        was_training = model.training
        model.eval()
        totals, count = [0.0] * len(measures), 0
        # Seeded: a DataLoader draws random numbers, and measuring must not change the training.
        with (
            torch.no_grad(),
            seeded(run.seed, run.device),
            self.step_settings.autocast(run.device),
        ):
            for batch in data.once(run.device, most):
                output, target = self.output_of(model, batch), target_of(batch)
                size = size_of(batch)
                for i, measure in enumerate(measures):
                    totals[i] += float(measure(output, target)) * size
                count += size
        model.train(was_training)
        return [total / count for total in totals]


Task.from_module = staticmethod(checked(ModuleTask, "from_module", "ModuleTask"))  # type: ignore[assignment]
