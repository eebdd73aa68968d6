"""Baseline optimizer: Muon for hidden matrices, AdamW for all other parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.optim import AdamW, Optimizer

from optsmith.optim._roles import HIDDEN, Group, Parameters, role_groups

NAME = "torch:muon"
WEIGHT_DECAY = 0.01
"""Decoupled, as in torch's AdamW."""


def missing_muon() -> str:
    """Return why Muon is not available; empty if it is."""
    if hasattr(optim, "Muon"):
        return ""
    return f"it requires torch 2.9 or later, and the installed version is {torch.__version__}"


class MuonWithAdamW(Optimizer):
    """Trains hidden matrices with `torch.optim.Muon`, all other parameters with AdamW.

    Both use the same learning rate and weight decay: Muon's updates are scaled to the typical
    magnitude of AdamW's (`match_rms_adamw`). Convolution weights are flattened to matrices of
    output channels times the other dimensions.

    Args:
        params: A module, or parameter groups with a `role` (`hidden` is trained with Muon).
        lr: Learning rate.
        weight_decay: Decoupled weight decay.

    Raises:
        TaskError: `params` has no roles.
    """

    def __init__(self, params: Parameters, lr: float, weight_decay: float = WEIGHT_DECAY) -> None:
        self._make_parts()
        defaults = {"lr": lr, "weight_decay": weight_decay}
        super().__init__(role_groups(params, NAME), defaults)

    def _make_parts(self) -> None:
        # They hold no parameters and no state of their own: each step assigns these.
        matrix = [nn.Parameter(torch.zeros(2, 2))]
        self._muon = optim.Muon(matrix, adjust_lr_fn="match_rms_adamw")
        self._adamw = AdamW(matrix)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group, which must have a `role`."""
        (group,) = role_groups([param_group], NAME)
        part: Optimizer = self._muon if group["role"] == HIDDEN else self._adamw
        for key, value in part.defaults.items():
            if key not in self.defaults:
                group.setdefault(key, value)
        super().add_param_group(group)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Perform one step and return the loss of `closure`, which is evaluated first if given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        hidden = [group for group in self.param_groups if group["role"] == HIDDEN]
        others = [group for group in self.param_groups if group["role"] != HIDDEN]
        if others:
            self._adamw.param_groups, self._adamw.state = others, self.state
            self._adamw.step()
        if hidden:
            self._step_hidden(hidden)
        return loss

    def _step_hidden(self, groups: list[Group]) -> None:
        """Run Muon on views of the parameters as matrices, or on copies where no view exists."""
        lent, matrices = [], {}
        for group in groups:
            ready = [p for p in group["params"] if p.grad is not None]
            for p in ready:
                matrices[p] = _matrix(p)
                matrices[p].grad = _matrix(p.grad)
            lent.append({**group, "params": [matrices[p] for p in ready]})
        self._muon.param_groups = lent
        self._muon.state = defaultdict(dict, {m: self.state[p] for p, m in matrices.items()})
        self._muon.step()  # type: ignore[no-untyped-call]
        for p, matrix in matrices.items():
            if matrix.data_ptr() != p.data_ptr():  # a copy
                p.copy_(matrix.view(p.shape))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._make_parts()


def _matrix(p: Tensor) -> Tensor:
    return p.detach().flatten(1)
