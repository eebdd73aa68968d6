"""Optimizers that train other weights than they evaluate, such as Schedule-Free.

They have methods `train` and `eval`, which exchange the weights of the model.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.optim import Optimizer

from optsmith._errors import TaskError
from optsmith.optim._roles import Parameters, parameters_of


@contextmanager
def evaluation_weights(optimizer: Optimizer) -> Iterator[None]:
    """Use the weights for evaluation inside the context; other optimizers have only one set."""
    switch: Any = optimizer
    if not hasattr(optimizer, "eval"):
        yield
        return
    switch.eval()
    try:
        yield
    finally:
        switch.train()


def switching(kind: Callable[..., Optimizer], params: Parameters, recipe: str) -> Optimizer:
    """Return an optimizer whose weights follow the mode of the model, starting with training.

    A forward pass after `model.eval()` uses the weights for evaluation, one after `model.train()`
    and every step use those for training.

    Args:
        kind: Function from parameters to the optimizer.
        params: A module, or parameter groups with a `role`, whose training loop uses
            `evaluation_weights`.
        recipe: Text of the recipe, for the error message.

    Raises:
        TaskError: `params` are bare parameters, whose model is unknown.
    """
    if not isinstance(params, nn.Module):
        params = list(params)
        if not all(isinstance(group, dict) and "role" in group for group in params):
            raise TaskError(
                f"{recipe} evaluates other weights than it trains: pass the model instead of its"
                " parameters"
            )
    optimizer: Any = kind(parameters_of(params))
    optimizer.train()
    optimizer.register_step_pre_hook(lambda optimizer, *_: optimizer.train())
    if isinstance(params, nn.Module):
        reference = weakref.ref(optimizer)  # a model may outlive its optimizer

        def follow(model: nn.Module, _: Any) -> None:
            if (known := reference()) is not None:
                known.train() if model.training else known.eval()

        params.register_forward_pre_hook(follow)
    return optimizer  # type: ignore[no-any-return]
