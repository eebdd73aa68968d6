"""Any rule as a `torch.optim.Optimizer`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from optsmith._errors import OptimizerError
from optsmith._torch import add_param_group
from optsmith.optim import _eager
from optsmith.optim._batch import Batch
from optsmith.optim._fused import FusedStep
from optsmith.optim._program import Program, math_dtype
from optsmith.rules import Rule

Member = tuple[int, Tensor, Tensor]
"""A parameter's number, the parameter, its gradient."""


class RuleOptimizer(Optimizer):
    """Trains with an update rule: `parameter -= lr * rule(gradient)`.

    Takes what torch's optimizers take: parameter groups with their own settings, closures,
    schedulers, `state_dict`. Half-precision parameters get single-precision state and arithmetic.

    Args:
        params: Parameters or groups of them.
        rule: The rule, or its text.
        lr: Learning rate.
        total_steps: Length of the run, which decays need; None when the rule has none.
        weight_decay: Added to the gradient as in torch's SGD and Adam.
        decoupled: Shrink the parameters instead, as in AdamW.
        maximize: Ascend.
        foreach: Use torch's multi-tensor functions; None decides by device (yes on a GPU).
        compile: Use fused kernels made by torch's compiler; the first step takes a while.
        seed: Seed of `drop` masks; None is 0. The masks do not depend on torch's random state.

    Raises:
        OptimizerError: A setting makes no sense; it is also a ValueError, as in torch.
    """

    def __init__(
        self,
        params: Any,
        rule: Rule | str,
        lr: float | Tensor,
        total_steps: int | None = None,
        weight_decay: float = 0.0,
        decoupled: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        compile: bool = False,
        seed: int | None = None,
    ) -> None:
        if foreach and compile:
            raise OptimizerError("foreach and compile are two ways to run a step: choose one")
        self._set_rule(Rule.parse(rule) if isinstance(rule, str) else rule)
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "decoupled": decoupled,
            "maximize": maximize,
            "foreach": foreach,
            "compile": compile,
            "total_steps": total_steps,
            "seed": 0 if seed is None else int(seed),
            "t": 0,
            "rule": str(self.rule),
        }
        super().__init__(params, defaults)

    def _set_rule(self, rule: Rule) -> None:
        self.rule = rule
        self.program = Program(rule)
        self._eager = _eager.Eager(self.program)
        self._fused: FusedStep | None = None
        self._warned = False

    # --- settings --------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; its time goes on from the time of the run."""
        if self.param_groups:
            param_group.setdefault("t", max(group["t"] for group in self.param_groups))
        add_param_group(self, param_group)
        try:
            self._check(self.param_groups[-1])
        except OptimizerError:
            self.param_groups.pop()
            raise

    def _check(self, group: dict[str, Any]) -> None:
        lr, total = group["lr"], group["total_steps"]
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise OptimizerError("a learning rate given as a tensor has one element")
        if not float(lr) >= 0.0:
            raise OptimizerError(f"lr must be 0 or more, not {float(lr)}")
        if not group["weight_decay"] >= 0.0:
            raise OptimizerError(f"weight_decay must be 0 or more, not {group['weight_decay']}")
        if total is None and self.program.uses_time:
            raise OptimizerError(
                f"the rule {self.rule} changes with time: give total_steps, the length of the run"
            )
        if total is not None and (
            isinstance(total, bool) or not float(total).is_integer() or total < 1
        ):
            raise OptimizerError(f"total_steps must be a whole number from 1, not {total}")
        for p in group["params"]:
            if p.is_complex():
                raise OptimizerError("complex parameters are not supported: use view_as_real")
            if not p.is_floating_point():
                raise OptimizerError(f"a parameter of type {p.dtype} cannot be trained")
        (FusedStep if group["compile"] else _eager.Eager).check(self.program, group["params"])

    # --- stepping --------------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step; with a closure, evaluate it first and return its loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group, members in zip(self.param_groups, self._ready(), strict=True):
            self._advance(group)
            self._step_group(group, members)
        return loss

    def _ready(self) -> list[list[Member]]:
        """Return the parameters of each group that have a gradient: all checked, none changed."""
        ready, first = [], 0
        for group in self.param_groups:
            numbered = enumerate(group["params"], first)
            ready.append([(i, p, _checked(g)) for i, p in numbered if (g := p.grad) is not None])
            first += len(group["params"])
        return ready

    def _advance(self, group: dict[str, Any]) -> None:
        group["t"] += 1
        total = group["total_steps"]
        if self.program.uses_time and group["t"] > total and not self._warned:
            self._warned = True
            warnings.warn(
                f"step {group['t']} is beyond total_steps={total}: decays stay at their last value",
                stacklevel=4,
            )

    def _step_group(self, group: dict[str, Any], ready: list[Member]) -> None:
        """Update the parameters of a group, together those that share what a step needs."""
        together: dict[Any, list[Member]] = {}
        for member in ready:
            p = member[1]
            state = self.state[p]
            if not state:
                state["step"] = 0
                state.update(zip(self.program.slots, self.program.init(p), strict=True))
            state["step"] += 1
            key = (state["step"], p.device, p.dtype)
            together.setdefault(key, []).append(member)
        for (count, _, dtype), members in together.items():
            self._run(group, self._batch(group, members, count, math_dtype(dtype)))

    def _batch(
        self,
        group: dict[str, Any],
        members: list[Member],
        count: int,
        dtype: torch.dtype,
    ) -> Batch:
        lr, t, program = float(group["lr"]), group["t"], self.program
        params = [p for _, p, _ in members]
        states = map(self.state.__getitem__, params)
        return Batch(
            program,
            params,
            gradients=_gradients(members, group, dtype, lr),
            states=[[state[name] for name in program.slots] for state in states],
            keys=self._keys(group["seed"], members),
            scalars=program.scalars(t, group["total_steps"] or 1, count),
            lr=lr,
            t=t,
            dtype=dtype,
        )

    def _keys(self, seed: int, members: list[Member]) -> list[list[int]]:
        if not self.program.is_random:
            return [[]] * len(members)
        return [self.program.keys(seed, index) for index, _, _ in members]

    def _run(self, group: dict[str, Any], batch: Batch) -> None:
        if group["compile"]:
            self._fused = self._fused or FusedStep(self.program, _eager.SMALL, self._eager)
            self._fused.step(batch)
        elif group["foreach"] is None:
            self._eager.step(batch)
        else:
            (self._eager.lists if group["foreach"] else self._eager.machine).step(batch)

    # --- saving ----------------------------------------------------------------------------------

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up a saved state, to the bit.

        Raises:
            OptimizerError: It was saved by another optimizer or with another rule.
        """
        loaded: dict[str, Any] = {}

        def inspect(_: Optimizer, state_dict: dict[str, Any]) -> None:
            saved = {str(group.get("rule")) for group in state_dict["param_groups"]}
            if saved != {str(self.rule)}:
                raise OptimizerError(
                    f"the state was saved with the rule {', '.join(sorted(saved))}, not {self.rule}"
                )
            loaded.update(state_dict)

        # The last of the hooks, so that it sees what the user's own hooks made of the state.
        hook = self.register_load_state_dict_pre_hook(inspect)
        try:
            super().load_state_dict(state_dict)
        finally:
            hook.remove()
        # torch casts state to the precision of the parameter; ours may be wider on purpose.
        old = [i for group in loaded["param_groups"] for i in group["params"]]
        new = [p for group in self.param_groups for p in group["params"]]
        for index, p in zip(old, new, strict=True):
            for name, value in loaded["state"].get(index, {}).items():
                if isinstance(value, Tensor):
                    dtype = math_dtype(p.dtype) if value.is_floating_point() else value.dtype
                    self.state[p][name] = value.detach().to(p.device, dtype, copy=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "rule": self.rule, "_warned": self._warned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "rule" in state:  # absent when torch calls this while loading a state_dict
            self._set_rule(state["rule"])
        super().__setstate__(state)


def _gradients(
    members: list[Member], group: dict[str, Any], dtype: torch.dtype, lr: float
) -> list[Tensor]:
    """Return what the rule sees; shrink the parameters first when decay is decoupled."""
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


def _checked(gradient: Tensor) -> Tensor:
    if gradient.layout != torch.strided:
        raise OptimizerError("sparse gradients are not supported: rules act on every element")
    if gradient.is_complex():
        raise OptimizerError("complex gradients are not supported")
    return gradient
