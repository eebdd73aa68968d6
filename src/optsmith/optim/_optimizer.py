"""`RuleOptimizer`: an update rule as a `torch.optim.Optimizer`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from optsmith._errors import OptimizerError
from optsmith._torch import add_param_group, not_compiled
from optsmith.optim import _eager
from optsmith.optim._batch import Batch
from optsmith.optim._fused import FusedStep
from optsmith.optim._group import Member, check_settings, checked, rule_gradients
from optsmith.optim._program import Program, math_dtype
from optsmith.optim._roles import HIDDEN, parameters_of, role_groups
from optsmith.rules import Rule, depends_on_role, for_role


class RuleOptimizer(Optimizer):
    """Trains with an update rule: `parameter -= lr * rule(gradient)`.

    Supports parameter groups with their own settings, closures, schedulers and `state_dict`, as
    torch's optimizers do. Half-precision parameters have float32 state and arithmetic.
    `torch.compile` does not trace a step but runs it between its graphs; use `compile=True` to
    compile steps.

    Args:
        params: A module, parameters, named parameters, or parameter groups. A rule with `hidden`
            needs a module, or groups with a `role`.
        rule: The rule, or its text.
        lr: Learning rate.
        total_steps: Number of steps in the run; required if the rule has decays.
        weight_decay: L2 penalty added to the gradient, as in torch's SGD and Adam.
        decoupled: Multiply the parameters by 1 - lr*weight_decay instead, as in AdamW.
        maximize: Maximize the objective instead of minimizing it.
        foreach: Whether to use torch's multi-tensor functions; by default, on a GPU for all tensors
            and on a CPU for small ones.
        compile: Whether to generate fused kernels with torch's compiler, during the first step.
        seed: Seed of `drop` masks (default 0), which do not depend on torch's random state.

    Raises:
        OptimizerError: A setting is invalid. It is also a ValueError, as in torch.
        TaskError: The rule depends on the roles of parameters, and they are not given.
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
            raise OptimizerError("foreach=True and compile=True exclude each other: choose one")
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
        super().__init__(self._grouped(params), defaults)
        # OneCycleLR and CyclicLR refuse optimizers without a default for momentum. A rule's
        # momentum is part of the rule, so a step warns if a scheduler sets it.
        self.defaults["momentum"] = 0.0

    def _set_rule(self, rule: Rule) -> None:
        self.rule = rule
        self._by_role = depends_on_role(rule)
        rest = _Part(for_role(rule, is_hidden=False))
        self._parts = {True: rest, False: rest}
        if self._by_role:
            self._parts[True] = _Part(for_role(rule, is_hidden=True))
        self._warned: set[str] = set()

    def _part(self, group: dict[str, Any]) -> _Part:
        return self._parts[self._by_role and group["role"] == HIDDEN]

    def _grouped(self, params: Any) -> Any:
        """Return parameters as torch accepts them, with roles if the rule depends on them."""
        if self._by_role:
            return role_groups(params, str(self.rule))
        return parameters_of(params)

    # --- settings --------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group; its decays continue at the current step of the run."""
        if self.param_groups:
            param_group.setdefault("t", max(group["t"] for group in self.param_groups))
        if self._by_role:
            (param_group,) = role_groups([param_group], str(self.rule))
        add_param_group(self, param_group)
        group = self.param_groups[-1]
        program = self._part(group).program
        try:
            check_settings(group, program)
            (FusedStep if group["compile"] else _eager.Eager).check(program, group["params"])
        except OptimizerError:
            self.param_groups.pop()
            raise

    # --- stepping --------------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Perform one step and return the loss of `closure`, which is evaluated first if given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._update()
        return loss

    # torch.compile would take the step count for a constant and recompile at every step.
    @not_compiled
    def _update(self) -> None:
        for group, members in zip(self.param_groups, self._ready(), strict=True):
            self._advance(group)
            self._step_group(group, members)

    def _ready(self) -> list[list[Member]]:
        """Return the parameters with a gradient by group; raise before any of them is changed."""
        ready, first = [], 0
        for group in self.param_groups:
            numbered = enumerate(group["params"], first)
            ready.append([(i, p, checked(g)) for i, p in numbered if (g := p.grad) is not None])
            first += len(group["params"])
        return ready

    def _advance(self, group: dict[str, Any]) -> None:
        group["t"] += 1
        total = group["total_steps"]
        if self._part(group).program.uses_time and group["t"] > total:
            self._warn_once(
                "total_steps",
                f"step {group['t']} is beyond total_steps={total}: decays keep their last value",
            )
        if "max_momentum" in group:  # set by OneCycleLR and CyclicLR
            self._warn_once(
                "momentum",
                "the scheduler cycles the learning rate only, because a rule's momentum is part of"
                " the rule: pass cycle_momentum=False",
            )

    def _warn_once(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(message, stacklevel=2)

    def _step_group(self, group: dict[str, Any], ready: list[Member]) -> None:
        """Update a group; parameters of one device, precision and step count form a batch."""
        together: dict[Any, list[Member]] = {}
        program = self._part(group).program
        for member in ready:
            p = member[1]
            state = self.state[p]
            if not state:
                state["step"] = 0
                state.update(zip(program.slots, program.init(p), strict=True))
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
        lr, t, program = float(group["lr"]), group["t"], self._part(group).program
        params = [p for _, p, _ in members]
        states = map(self.state.__getitem__, params)
        return Batch(
            program,
            params,
            gradients=rule_gradients(members, group, dtype, lr),
            states=[[state[name] for name in program.slots] for state in states],
            keys=_keys(program, group["seed"], members),
            scalars=program.scalars(t, group["total_steps"] or 1, count),
            lr=lr,
            t=t,
            dtype=dtype,
        )

    def _run(self, group: dict[str, Any], batch: Batch) -> None:
        part = self._part(group)
        if group["compile"]:
            part.fused = part.fused or FusedStep(part.program, _eager.SMALL, part.eager)
            part.fused.step(batch)
        elif group.get("foreach") is None:  # the state of an exported file has no such setting
            part.eager.step(batch)
        else:
            (part.eager.lists if group["foreach"] else part.eager.machine).step(batch)

    # --- saving ----------------------------------------------------------------------------------

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a saved state; the run then continues bit-identically.

        Raises:
            OptimizerError: The state was saved by another optimizer or with another rule.
        """
        loaded: dict[str, Any] = {}

        def inspect(_: Optimizer, state_dict: dict[str, Any]) -> None:
            saved = {str(group.get("rule")) for group in state_dict["param_groups"]}
            if saved != {str(self.rule)}:
                raise OptimizerError(
                    f"the state was saved with the rule {', '.join(sorted(saved))}, not {self.rule}"
                )
            loaded.update(state_dict)

        # Registered last, so that it sees the state as changed by the user's own hooks.
        hook = self.register_load_state_dict_pre_hook(inspect)
        try:
            super().load_state_dict(state_dict)
        finally:
            hook.remove()
        # torch casts state to the precision of the parameter, but our state may be wider.
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


class _Part:
    """The program of the parameters of a role, with its back ends."""

    def __init__(self, rule: Rule) -> None:
        self.program = Program(rule)
        self.eager = _eager.Eager(self.program)
        self.fused: FusedStep | None = None


def _keys(program: Program, seed: int, members: list[Member]) -> list[list[int]]:
    if not program.is_random:
        return [[]] * len(members)
    return [program.keys(seed, index) for index, _, _ in members]
