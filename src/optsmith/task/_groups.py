"""Parameter groups and weight decay of module tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from optsmith._errors import TaskError
from optsmith.optim import Parameters, with_roles

Groups = Callable[[nn.Module], Iterable[Mapping[str, Any]]]
"""A function from a model to parameter groups in the format of torch's optimizers."""


@dataclass(frozen=True, slots=True)
class Trained:
    """The trainable parameters of a run.

    Attributes:
        params: Parameters or groups to pass to the optimizer.
        decayed: Pairs of a parameter and its L2 penalty.
    """

    params: Parameters
    decayed: list[tuple[Tensor, float]]


def trained(model: nn.Module, groups: Groups | None, weight_decay: float) -> Trained:
    """Return the trainable parameters of a model.

    Roles are added to the groups and weight decay is removed, because the task adds the L2 penalty
    itself. Only a weight decay of 0 is kept: it disables the decay of recipes such as AdamW.

    Args:
        model: The model.
        groups: Function that returns the parameter groups, or None for no groups.
        weight_decay: L2 penalty of parameters whose group does not set one.

    Raises:
        TaskError: The groups are malformed, or set a learning rate.
    """
    if groups is None:
        every = model.parameters() if weight_decay else ()
        return Trained(model, [(p, weight_decay) for p in every])
    split = with_roles(model, _checked(groups(model)))
    decayed = [
        (item[1] if isinstance(item, tuple) else item, decay)
        for group in split
        if (decay := group.get("weight_decay", weight_decay))
        for item in group["params"]
    ]
    params = [
        {key: value for key, value in group.items() if key != "weight_decay" or value == 0}
        for group in split
    ]
    return Trained(params, decayed)


def _checked(groups: Any) -> list[Mapping[str, Any]]:
    found = list(groups) if isinstance(groups, Iterable) else []
    if not found or not all(isinstance(group, Mapping) and "params" in group for group in found):
        raise TaskError(
            'groups must return parameter groups: a list of dicts, each with a key "params"'
        )
    if any("lr" in group for group in found):
        raise TaskError("a parameter group cannot set lr, because the learning rate is tuned")
    return found
