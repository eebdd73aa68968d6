"""Eager execution in place: every instruction writes into a buffer that is free by then.

New state goes straight into the state's own memory, temporaries into a few scratch buffers. Large
tensors are worked through in pieces that stay in the cache, which makes the many short passes of
eager code nearly as good as a fused kernel's one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from optsmith.optim._batch import Batch
from optsmith.optim._program import Program, cast
from optsmith.optim._trace import BOOLEAN, Instruction, Value

CHUNK = 1 << 16
"""Elements worked on at a time."""

_WRITES_TO_OUT = {
    *("abs", "add", "addcdiv", "addcmul", "clamp", "cos", "div", "exp", "lerp", "log", "mul"),
    *("neg", "pow", "remainder", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "square", "sub"),
    *("tanh", "where"),
}
# Arguments that torch takes as numbers, too, which is quicker than tensors of one element.
_NUMBERS = {
    **dict.fromkeys(("add", "sub", "mul", "div", "pow", "remainder", *BOOLEAN), (1,)),
    "clamp": (1, 2),
    "lerp": (2,),
}


@dataclass(frozen=True, slots=True)
class _Step:
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    out: Value
    buffer: int | None  # None: the function makes its own tensor


class Machine:
    """Runs a program's instructions in place on single tensors.

    Args:
        program: The program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.code = program.code
        self.body = list(self.code.body)
        self.factor: Any = 1.0  # the update is factor * result …
        self.quotient: tuple[Value, Value] | None = None  # … or factor * numerator / denominator
        self.result = self.code.result
        self._peel()
        self.scratch = 0
        self.steps: list[_Step] = []
        self.copies: list[tuple[int, Value]] = []
        self._plan()

    # --- planning --------------------------------------------------------------------------------

    def _maker(self, value: Value) -> Instruction | None:
        """Return the instruction of a value that only the final step needs."""
        if any(slot.after == value for slot in self.code.slots):
            return None
        if any(value in i.inputs for i in self.body):
            return None
        return next((i for i in self.body if i.out == value), None)

    def _peel(self) -> None:
        """Leave a last multiplication by a scalar, and a last division, to the final step."""
        last = self._maker(self.result)
        if last and last.name == "mul" and not _tensor(last.args[1]):
            self.body.remove(last)
            self.result, self.factor = last.args
            last = self._maker(self.result)
        if last and last.name == "div" and all(map(_tensor, last.args)):
            self.body.remove(last)
            self.quotient = (last.args[0], last.args[1])

    def _plan(self) -> None:
        """Choose the buffer of every result: buffers 0 … are the state's, then scratch."""
        slots = self.code.slots
        forever = len(self.body)
        last_use = {v: i for i, ins in enumerate(self.body) for v in ins.inputs}
        kept = [*(slot.after for slot in slots), *(self.quotient or (self.result,))]
        last_use.update(dict.fromkeys(kept, forever))
        for instruction in reversed(self.body):
            if instruction.name not in _WRITES_TO_OUT | BOOLEAN:
                # Its result may be a view of what it was given.
                until = last_use.get(instruction.out, 0)
                last_use.update({v: max(until, last_use[v]) for v in instruction.inputs})
        home = {slot.after: j for j, slot in enumerate(slots)}
        holds: list[Value | None] = [slot.before for slot in slots]
        boolean: set[Value] = set()
        for i, instruction in enumerate(self.body):
            free = [b for b, v in enumerate(holds) if v is None or last_use.get(v, -1) <= i]
            buffer = None
            if instruction.name in BOOLEAN:
                boolean.add(instruction.out)
            elif instruction.name in _WRITES_TO_OUT:
                buffer = self._choose(home.get(instruction.out), free, holds)
            for b in free:
                holds[b] = None
            if buffer is not None:
                holds[buffer] = instruction.out
            self.steps.append(_step(instruction, buffer, boolean))
        self.scratch = len(holds) - len(slots)
        self.copies = [(j, slot.after) for j, slot in enumerate(slots) if holds[j] != slot.after]

    def _choose(self, home: int | None, free: list[int], holds: list[Value | None]) -> int:
        if home is not None and home in free:
            return home
        # A scratch buffer rather than the state's, which its new value will want.
        if free and (home is None or free[-1] >= len(self.code.slots)):
            return free[-1]
        holds.append(None)
        return len(holds) - 1

    # --- running ---------------------------------------------------------------------------------

    def step(self, batch: Batch) -> None:
        """Update parameters and their states in place."""
        numbers = [s.item() if isinstance(s, Tensor) else s for s in batch.scalars]
        tensors = cast(batch.scalars, batch.dtype)
        for i, (p, g, state) in enumerate(
            zip(batch.params, batch.gradients, batch.states, strict=True)
        ):
            run = partial(self._run, numbers=numbers, tensors=tensors, lr=batch.lr)
            size = p.numel()
            if not batch.is_contiguous(i):
                scratch = [torch.empty_like(g) for _ in range(self.scratch)]
                run(p, g, [*state, *scratch], [u.view(p.shape) for u in batch.noise(i, 0, size)])
                continue
            scratch = [g.new_empty(min(size, CHUNK)) for _ in range(self.scratch)]
            flat = [t.view(-1) for t in (p, g, *state)]
            for start in range(0, size, CHUNK):
                end = min(start + CHUNK, size)
                piece = flat if size <= CHUNK else [t[start:end] for t in flat]
                room = scratch if start == 0 else [t[: end - start] for t in scratch]
                run(piece[0], piece[1], [*piece[2:], *room], batch.noise(i, start, end))

    def _run(
        self,
        param: Tensor,
        gradient: Tensor,
        buffers: list[Tensor],
        uniforms: list[Tensor],
        *,
        numbers: list[Any],
        tensors: list[Any],
        lr: float,
    ) -> None:
        values: list[Any] = [None] * self.code.size
        values[self.code.gradient.index] = gradient
        for j, slot in enumerate(self.code.slots):
            values[slot.before.index] = buffers[j]
        for value, noise in zip(self.code.uniforms, uniforms, strict=True):
            values[value.index] = noise
        places = (values, numbers, tensors)
        for step in self.steps:
            args = [places[a[0]][a[1]] if type(a) is tuple else a for a in step.args]
            kwargs = {n: places[a[0]][a[1]] if type(a) is tuple else a for n, a in step.kwargs}
            if step.buffer is not None:
                kwargs["out"] = buffers[step.buffer]
            values[step.out.index] = step.function(*args, **kwargs)
        self._finish(param, values, numbers, lr)
        for buffer, value in self.copies:
            buffers[buffer].copy_(values[value.index])

    def _finish(self, param: Tensor, values: list[Any], numbers: list[Any], lr: float) -> None:
        """Take the step; in half precision through a wider copy of the parameter."""
        factor = numbers[self.factor.index] if isinstance(self.factor, Value) else self.factor
        if self.quotient:
            above, below = (values[v.index] for v in self.quotient)
            wide = param if param.dtype == above.dtype else param.to(above.dtype)
            wide.addcdiv_(above, below, value=-lr * factor)
            if wide is not param:
                param.copy_(wide)
        elif self.result.is_scalar:
            param.sub_(lr * numbers[self.result.index] * factor)
        else:
            param.add_(values[self.result.index], alpha=-lr * factor)


def _tensor(argument: Any) -> bool:
    return isinstance(argument, Value) and not argument.is_scalar


def _step(instruction: Instruction, buffer: int | None, boolean: set[Value]) -> _Step:
    """Say where each argument is: among tensors (0), scalars as numbers (1) or as tensors (2)."""
    # torch takes a number only after a tensor; beside a boolean it would widen to float32.
    first = instruction.args[0] if instruction.args else None
    as_numbers = _tensor(first) and not any(v in boolean for v in instruction.inputs)
    numbers = _NUMBERS.get(instruction.name, ()) if as_numbers else ()

    def place(a: Any, is_number: bool) -> Any:
        if not isinstance(a, Value):
            return a
        return (0 if not a.is_scalar else 1 if is_number else 2, a.index)

    kwargs = tuple((name, place(a, True)) for name, a in instruction.kwargs)
    args = tuple(place(a, i in numbers) for i, a in enumerate(instruction.args))
    return _Step(instruction.function, args, kwargs, instruction.out, buffer)
