"""Back end that updates lists of tensors with torch's multi-tensor (foreach) functions.

Functions of whole tensors are called once per shape, on all tensors of that shape together.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from optsmith._torch import addcdiv_lists, copy_lists, on_lists
from optsmith.optim._backend import Backend
from optsmith.optim._batch import Batch
from optsmith.optim._plan import Plan, Step
from optsmith.optim._program import Program
from optsmith.rules import OverCopies

_COMMUTE = {"add", "mul"}
_MUST_BE_LISTS = {"addcmul": 3, "lerp": 2}  # number of leading arguments; 1 by default


class Lists(Backend[Batch]):
    """Runs a plan on lists of tensors, in place where torch supports it.

    Args:
        program: The program.
        plan: Its plan; each buffer is a list of tensors.
    """

    def __init__(self, program: Program, plan: Plan) -> None:
        self.program = program
        self.code = program.code
        self.plan = plan
        self._by_list: dict[int, bool] = {}  # by the register of the result
        self._over = {s.out: OverCopies(s.function) for s in plan.steps if s.scope == "tensor"}

    def step(self, given: Batch) -> None:
        """Update parameters and their states in place."""
        params = list(given.params)
        if not params:
            return
        slots = [[state[j] for state in given.states] for j in range(len(self.code.slots))]
        registers = self._registers(given, params, slots)
        buffers: list[Any] = [*slots, *[None] * self.plan.scratch]
        for step in self.plan.steps:
            result = self._call(step, registers, buffers, given)
            registers[step.out] = result
            if step.buffer is not None:
                buffers[step.buffer] = result
        self._finish(registers, params, self.plan.scale(given.lr, given.scalars))
        for slot, old in zip(self.code.slots, slots, strict=True):
            new = registers[slot.after.index]
            if new is not old:
                copy_lists(old, new)

    def _registers(
        self, batch: Batch, params: list[Tensor], slots: list[list[Tensor]]
    ) -> list[Any]:
        registers: list[Any] = [*batch.scalars, *batch.scalars, *(x for _, x in self.plan.literals)]
        registers[self.code.gradient.index] = list(batch.gradients)
        if self.program.uses_parameter:
            registers[self.code.parameter.index] = [p.to(batch.dtype) for p in params]
        for slot, tensors in zip(self.code.slots, slots, strict=True):
            registers[slot.before.index] = tensors
        if self.code.uniforms:
            noise = [batch.noise(i, 0, p.numel()) for i, p in enumerate(params)]
            for j, value in enumerate(self.code.uniforms):
                pairs = zip(noise, params, strict=True)
                registers[value.index] = [n[j].view(p.shape) for n, p in pairs]
        return registers

    def _call(
        self,
        step: Step,
        registers: list[Any],
        buffers: list[Any],
        batch: Batch,
    ) -> list[Tensor]:
        args = [registers[i] for i in step.args]
        kwargs = {name: registers[i] for name, i in step.kwargs} if step.kwargs else {}
        if step.scope == "tensor":
            return self._whole(step, args, len(batch.params))
        by_list = self._by_list.get(step.out)
        if by_list is None:
            by_list = self._by_list[step.out] = step.name in on_lists and _takes_lists(
                step.name, args
            )
        if by_list:
            fresh, in_place = on_lists[step.name]
            into = None if step.buffer is None else buffers[step.buffer]
            if into is not None and into is args[0]:
                in_place(*args, **kwargs)
                return into  # type: ignore[no-any-return]
            if into is not None and step.name in _COMMUTE and into is args[1]:
                in_place(into, args[0])
                return into  # type: ignore[no-any-return]
            return list(fresh(*args, **kwargs))
        # One tensor at a time: torch has no foreach function for this call.
        for position, register in enumerate(step.args):
            if register < self.code.size and isinstance(args[position], float):
                args[position] = torch.tensor(args[position], dtype=batch.dtype)
        return [
            step.function(*(a[i] if isinstance(a, list) else a for a in args), **kwargs)
            for i in range(len(batch.params))
        ]

    def _whole(self, step: Step, args: list[Any], count: int) -> list[Any]:
        """Return the results of a function of whole tensors."""
        lists = [isinstance(a, list) for a in args]
        alike: dict[Any, list[int]] = {}
        for i in range(count):
            shapes = tuple(a[i].shape for a, is_list in zip(args, lists, strict=True) if is_list)
            alike.setdefault(shapes, []).append(i)
        results: list[Any] = [None] * count
        for members in alike.values():
            if len(members) == 1:
                (i,) = members
                given = (a[i] if is_list else a for a, is_list in zip(args, lists, strict=True))
                results[i] = step.function(*given)
                continue
            stacked = (
                torch.stack([a[i] for i in members]) if is_list else a
                for a, is_list in zip(args, lists, strict=True)
            )
            found = self._over[step.out](*stacked)
            parts = zip(*found, strict=True) if isinstance(found, tuple) else found
            for i, part in zip(members, parts, strict=True):
                results[i] = part
        return results

    def _finish(self, registers: list[Any], params: list[Tensor], scale: float) -> None:
        add_ = on_lists["add"][1]
        if self.plan.quotient is not None:
            above, below = (registers[v.index] for v in self.plan.quotient)
            if params[0].dtype == above[0].dtype:
                addcdiv_lists(params, above, below, value=scale)
                return
            update = list(on_lists["div"][0](above, below))
        elif self.plan.result.is_scalar:
            add_(params, registers[self.plan.result.index] * scale)
            return
        else:
            update = registers[self.plan.result.index]
            if not update[0].is_floating_point():
                update = [u.to(p.dtype) for u, p in zip(update, params, strict=True)]
        add_(params, update, alpha=scale)


def _takes_lists(name: str, args: list[Any]) -> bool:
    """Return whether torch's foreach function `name` accepts these arguments."""
    first = args[: _MUST_BE_LISTS.get(name, 1)]
    return all(isinstance(a, list) for a in first) and all(
        a[0].is_floating_point() for a in args if isinstance(a, list)
    )
