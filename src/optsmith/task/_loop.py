"""The training loop of module tasks, with checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from optsmith._errors import TaskError
from optsmith.optim import evaluation_weights
from optsmith.task._base import ResumableTraining, Run, Signal
from optsmith.task._batch import Batch
from optsmith.task._groups import trained
from optsmith.task._source import Reader

if TYPE_CHECKING:
    from optsmith.task._module import ModuleTask

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True)
class StepSettings:
    """Settings of an optimizer step of a module task.

    Attributes:
        clip_norm: Maximum norm of the gradients of all parameters; None disables clipping.
        accumulate: Batches per step; their gradients are averaged.
        weight_decay: L2 penalty: the weights times this are added to the gradients.
        precision: `bf16` or `fp16` for mixed precision with autocast; None keeps the model's.

    Raises:
        TaskError: A setting is invalid.
    """

    clip_norm: float | None = None
    accumulate: int = 1
    weight_decay: float = 0.0
    precision: str | None = None

    def __post_init__(self) -> None:
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise TaskError(f"clip_norm must be positive, not {self.clip_norm}")
        if not isinstance(self.accumulate, int) or self.accumulate < 1:
            raise TaskError(f"accumulate must be an integer of at least 1, not {self.accumulate}")
        if not self.weight_decay >= 0:
            raise TaskError(f"weight_decay must be 0 or more, not {self.weight_decay}")
        if self.precision not in (None, *_DTYPES):
            raise TaskError(f'precision must be "bf16", "fp16" or None, not "{self.precision}"')

    def autocast(self, device: torch.device) -> AbstractContextManager[Any]:
        """Return the autocast context of forward passes."""
        if self.precision is None:
            return nullcontext()
        return torch.autocast(device.type, _DTYPES[self.precision])

    def scaler(self, device: torch.device) -> torch.amp.GradScaler | None:
        """Return a gradient scaler for `fp16`, which prevents underflow; None otherwise.

        Raises:
            TaskError: The device does not support `fp16`.
        """
        if self.precision != "fp16":
            return None
        if device.type != "cuda":
            raise TaskError(f'precision="fp16" needs a CUDA device, not {device}; use "bf16" there')
        return torch.amp.GradScaler(device.type)


class ModuleTraining(ResumableTraining):
    """One run of a module task.

    Args:
        task: The task.
        run: The run.
    """

    def __init__(self, task: ModuleTask, run: Run) -> None:
        self._task, self._run = task, run
        self._step = 0
        self._parts: _Parts | None = None
        self._over = False

    def send(self, _: None) -> Signal:
        """Take a step and return its signal; after the last step, stop with the final metrics."""
        if self._over:
            raise StopIteration
        parts = self._parts = self._parts or _Parts(self._task, self._run)
        task, run = self._task, self._run
        if self._step == run.steps:
            self._over = True
            with evaluation_weights(parts.optimizer):
                metrics = task.measure(parts.model, run)
            raise StopIteration(metrics)
        loss = parts.step()
        self._step += 1
        if task.measured is None:
            return loss
        if not task.is_checkpoint(self._step, run.steps):
            return None
        with evaluation_weights(parts.optimizer):
            return task.check(parts.model, run)

    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> Signal:
        """End the run."""
        self._over, self._parts = True, None
        raise kind if value is None else value

    def save(self) -> dict[str, Any]:
        """Return a checkpoint: model, optimizer, gradient scaler and position in the data."""
        if self._parts is None:
            raise TaskError("a run cannot be saved before its first step")
        return {"step": self._step, **self._parts.save()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a checkpoint."""
        self._step, self._parts = state["step"], _Parts(self._task, self._run, state)


class _Parts:
    """The model, optimizer and data reader of a run.

    Args:
        task: The task.
        run: The run.
        state: The checkpoint to restore; None starts a new run.
    """

    def __init__(self, task: ModuleTask, run: Run, state: Mapping[str, Any] | None = None) -> None:
        self.task, self.settings, self.device = task, task.step_settings, run.device
        self.model = task.make(run.device).train()
        chosen = trained(self.model, task.groups, self.settings.weight_decay)
        self.decayed = chosen.decayed
        self.optimizer: Optimizer = run.optimizer(chosen.params)
        self.scaler = self.settings.scaler(run.device)
        position = None
        if state is not None:
            _load_model(self.model, state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            if self.scaler is not None:
                self.scaler.load_state_dict(state["scaler"])
            position = state["data"]
        self.data: Reader = task.data.train(run, self.settings.accumulate, position)

    def save(self) -> dict[str, Any]:
        return {
            "model": _save_model(self.model),
            "optimizer": self.optimizer.state_dict(),
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            "data": self.data.position(),
        }

    def step(self) -> Tensor:
        """Take an optimizer step and return the loss before it."""
        self.model.zero_grad()  # the optimizer's own method imports torch.compile: seconds
        count = self.settings.accumulate
        losses = [self._backward(next(self.data), count) for _ in range(count)]
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if self.settings.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm)
        for p, decay in self.decayed:
            if p.grad is not None:
                p.grad.add_(p.detach(), alpha=decay)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return losses[0] if count == 1 else torch.stack(losses).mean()

    def _backward(self, batch: Batch, count: int) -> Tensor:
        with self.settings.autocast(self.device):
            loss = self.task.loss_of(self.model, batch)
        part = loss if count == 1 else loss / count
        scaled = part if self.scaler is None else self.scaler.scale(part)
        scaled.backward()  # type: ignore[no-untyped-call]
        return loss.detach()


def _save_model(model: nn.Module) -> dict[str, Any]:
    """Return what training may change: parameters, buffers and attributes of simple types."""
    return {
        "tensors": {name: tensor.detach() for name, tensor in _tensors(model)},
        "attributes": {
            name: {
                key: value.detach() if isinstance(value, Tensor) else value
                for key, value in vars(module).items()
                if value is None or isinstance(value, bool | int | float | str | Tensor)
            }
            for name, module in model.named_modules()
        },
    }


@torch.no_grad()
def _load_model(model: nn.Module, state: Mapping[str, Any]) -> None:
    for name, tensor in _tensors(model):
        tensor.copy_(state["tensors"][name])
    for name, module in model.named_modules():
        for key, value in state["attributes"][name].items():
            old = vars(module).get(key)
            if not isinstance(value, Tensor) or not isinstance(old, Tensor):
                vars(module)[key] = value
            elif not torch.equal(old, on_device := value.to(old.device)):
                vars(module)[key] = (
                    on_device  # an unchanged tensor may be shared, so it is not replaced
                )


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield parameters and all buffers; a state_dict has only the persistent buffers."""
    yield from model.named_parameters()
    yield from model.named_buffers()
