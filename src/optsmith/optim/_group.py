"""Parameter groups of `RuleOptimizer`: checks of their settings, and the inputs of their rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from optsmith._errors import OptimizerError
from optsmith.optim._program import Program

Member = tuple[int, Tensor, Tensor]
"""The index of a parameter in its optimizer, the parameter, and its gradient."""


def check_settings(group: dict[str, Any], program: Program) -> None:
    """Check the settings of a parameter group.

    Raises:
        OptimizerError: A setting is invalid, or missing for this program.
    """
    lr, total = group["lr"], group["total_steps"]
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise OptimizerError("lr given as a tensor must have one element")
    if not float(lr) >= 0.0:
        raise OptimizerError(f"lr must be 0 or more, not {float(lr)}")
    if not group["weight_decay"] >= 0.0:
        raise OptimizerError(f"weight_decay must be 0 or more, not {group['weight_decay']}")
    if total is None and program.uses_time:
        raise OptimizerError(
            f"the rule {program.rule} depends on time: pass total_steps, the length of the run"
        )
    if total is not None and (
        isinstance(total, bool) or not float(total).is_integer() or total < 1
    ):
        raise OptimizerError(f"total_steps must be a positive whole number, not {total}")
    for p in group["params"]:
        if p.is_complex():
            raise OptimizerError("complex parameters are not supported: use view_as_real")
        if not p.is_floating_point():
            raise OptimizerError(f"parameters must be floating-point tensors, not {p.dtype}")


def rule_gradients(
    members: Sequence[Member], group: dict[str, Any], dtype: torch.dtype, lr: float
) -> list[Tensor]:
    """Return the rule's inputs; apply decoupled weight decay to the parameters."""
    gradients = [g if g.dtype == dtype else g.to(dtype) for _, _, g in members]
    if group["maximize"]:
        gradients = [-g for g in gradients]
    decay = group["weight_decay"]
    if decay and group["decoupled"]:
        for _, p, _ in members:
            p.mul_(1 - lr * decay)
    elif decay:
        gradients = [g.add(m[1], alpha=decay) for g, m in zip(gradients, members, strict=True)]
    return gradients


def checked(gradient: Tensor) -> Tensor:
    """Return the gradient if it is supported, and raise an OptimizerError otherwise."""
    if gradient.layout != torch.strided:
        raise OptimizerError("sparse gradients are not supported: rules act on every element")
    if gradient.is_complex():
        raise OptimizerError("complex gradients are not supported")
    return gradient
