"""Parameter groups of a module task, and the weight decay that is the task's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from optsmith._errors import TaskError
from optsmith.optim import Parameters, with_roles

Groups = Callable[[nn.Module], Iterable[Mapping[str, Any]]]
"""From a model to parameter groups, as torch's optimizers take them."""


@dataclass(frozen=True, slots=True)
class Trained:
    """The parameters of a run.

    Attributes:
        params: What recipes train.
        decayed: Parameters with an L2 penalty, and how large it is.
    """

    params: Parameters
    decayed: list[tuple[Tensor, float]]


def trained(model: nn.Module, groups: Groups | None, weight_decay: float) -> Trained:
    """Return what is trained of a model.

    Groups have roles, and no decay, which the task adds itself; but a group with none stays so, for
    recipes with a decay of their own, such as AdamW.

    Args:
        model: The model.
        groups: Its parameter groups; None: no groups.
        weight_decay: L2 penalty of parameters whose group has none of its own.

    Raises:
        TaskError: These are not groups, or they set a learning rate.
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
            'groups returns parameter groups: a list of dicts, each with "params" and settings'
        )
    if any("lr" in group for group in found):
        raise TaskError("a parameter group cannot have an lr of its own: it is searched for")
    return found
