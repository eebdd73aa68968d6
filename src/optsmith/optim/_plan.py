"""Buffer allocation for running a program in place.

New state is written to the memory of the state, temporaries to a few scratch buffers. An
instruction writes to a buffer that is free at that point, possibly that of its own operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from optsmith.optim._code import BOOLEAN, Instruction, Value
from optsmith.optim._program import Program
from optsmith.rules import Scope

_WRITES_TO_OUT = {
    *("abs", "add", "addcdiv", "addcmul", "clamp", "cos", "div", "exp", "lerp", "log", "maximum"),
    *(
        "minimum",
        "mul",
        "neg",
        "pow",
        "remainder",
        "rsqrt",
        "sigmoid",
        "sign",
        "sin",
        "sqrt",
        "square",
        "sub",
    ),
    *("tanh", "where"),
}
# Positions of scalar arguments that are passed as numbers. In arithmetic, 0-dim tensors are faster.
_NUMBERS = {
    **dict.fromkeys(("pow", "remainder", *BOOLEAN), (1,)),
    "clamp": (1, 2),
    "lerp": (2,),
}
_ARITHMETIC = {"add", "sub", "mul", "div"}


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction with the registers of its arguments and its output buffer."""

    name: str
    function: Callable[..., Any]
    args: tuple[int, ...]
    kwargs: tuple[tuple[str, int], ...]
    out: int
    buffer: int | None  # None if the function allocates its result
    scope: Scope = "element"


class Plan:
    """The steps of a program, followed by the update of the parameter.

    The first `size` registers hold the program's values (scalars as tensors), the next `size` its
    scalars as numbers, the last ones literals. Buffers are the slots of the state, then scratch.

    Attributes:
        steps: The steps.
        literals: For each literal, whether it is stored as a tensor, and the number.
        scratch: Number of scratch buffers.
        copies: Pairs of slot and register where the new state is not in the slot's own buffer.
        factor: Scalar factor of the update.
        result: The update, unless it is `quotient`.
        quotient: Numerator and denominator of the update, if the parameter is updated by a
            quotient.
    """

    def __init__(self, program: Program) -> None:
        self.code = program.code
        self.size = self.code.size
        self.body = list(self.code.body)
        self.factor: Any = 1.0
        self.quotient: tuple[Value, Value] | None = None
        self.result = self.code.result
        self._merge_final_operations()
        self.literals: list[tuple[bool, Any]] = []
        self.steps: list[Step] = []
        self.scratch = 0
        self.copies: list[tuple[int, int]] = []
        self._allocate()

    def _maker(self, value: Value) -> Instruction | None:
        """Return the instruction that computes a value, if only the parameter's update uses it."""
        if any(slot.after == value for slot in self.code.slots):
            return None
        if any(value in i.inputs for i in self.body):
            return None
        return next((i for i in self.body if i.out == value), None)

    def _merge_final_operations(self) -> None:
        """Merge a final multiplication by a scalar and a final division into the update."""
        last = self._maker(self.result)
        if last and last.name == "mul" and not _is_tensor(last.args[1]):
            self.body.remove(last)
            self.result, self.factor = last.args
            last = self._maker(self.result)
        if last and last.name == "div" and all(map(_is_tensor, last.args)):
            self.body.remove(last)
            self.quotient = (last.args[0], last.args[1])

    def _allocate(self) -> None:
        slots = self.code.slots
        forever = len(self.body)
        last_use = {v: i for i, ins in enumerate(self.body) for v in ins.inputs}
        kept = [*(slot.after for slot in slots), *(self.quotient or (self.result,))]
        last_use.update(dict.fromkeys(kept, forever))
        for instruction in reversed(self.body):
            if instruction.name not in _WRITES_TO_OUT | BOOLEAN:
                # The result may be a view of an argument, so that the argument must live as long.
                until = last_use.get(instruction.out, 0)
                last_use.update({v: max(until, last_use[v]) for v in instruction.inputs})
        home = {slot.after: j for j, slot in enumerate(slots)}
        holds: list[Value | None] = [slot.before for slot in slots]
        odd = {j for j, slot in enumerate(slots) if slot.scope == "tensor"}  # slots of any shape
        boolean: set[Value] = set()
        for i, instruction in enumerate(self.body):
            free = [
                b
                for b, v in enumerate(holds)
                if b not in odd and (v is None or last_use.get(v, -1) <= i)
            ]
            buffer = None
            if instruction.name in BOOLEAN:
                boolean.add(instruction.out)
            elif instruction.name in _WRITES_TO_OUT:
                buffer = self._choose(home.get(instruction.out), free, holds)
            for b in free:
                holds[b] = None
            if buffer is not None:
                holds[buffer] = instruction.out
            self.steps.append(self._step(instruction, buffer, boolean))
        self.scratch = len(holds) - len(slots)
        self.copies = [
            (j, slot.after.index) for j, slot in enumerate(slots) if holds[j] != slot.after
        ]

    def _choose(self, home: int | None, free: list[int], holds: list[Value | None]) -> int:
        if home is not None and home in free:
            return home
        # Prefer scratch buffers to those of the state, where new state will be written.
        if free and (home is None or free[-1] >= len(self.code.slots)):
            return free[-1]
        holds.append(None)
        return len(holds) - 1

    def _step(self, instruction: Instruction, buffer: int | None, boolean: set[Value]) -> Step:
        name, args = instruction.name, instruction.args
        # torch accepts numbers only after a tensor, and combines them with booleans as float32.
        after_tensor = bool(args) and _is_tensor(args[0])
        plain = after_tensor and not any(v in boolean for v in instruction.inputs)
        numbers = _NUMBERS.get(name, ()) if plain else ()
        if instruction.scope == "tensor":  # its function may branch on a number such as k
            numbers = tuple(range(len(args)))
        as_tensor = after_tensor and name in _ARITHMETIC
        return Step(
            name,
            instruction.function,
            tuple(self._register(a, i in numbers, as_tensor) for i, a in enumerate(args)),
            tuple((n, self._register(a, True, False)) for n, a in instruction.kwargs),
            instruction.out.index,
            buffer,
            instruction.scope,
        )

    def run(self, registers: list[Any], buffers: Sequence[Tensor]) -> None:
        """Run the steps; `settle` must be called after the update of the parameter."""
        for slot, buffer in zip(self.code.slots, buffers, strict=False):
            registers[slot.before.index] = buffer
        for step in self.steps:
            args = [registers[i] for i in step.args]
            kwargs = {name: registers[i] for name, i in step.kwargs} if step.kwargs else {}
            if step.buffer is not None:
                kwargs["out"] = buffers[step.buffer]
            registers[step.out] = step.function(*args, **kwargs)

    def settle(self, registers: list[Any], buffers: Sequence[Tensor]) -> None:
        """Copy new state that is in other buffers to its slots."""
        for slot_number, register in self.copies:
            buffers[slot_number].copy_(registers[register])

    def scale(self, lr: float, scalars: list[Any]) -> Any:
        """Return the factor of the update, including the learning rate and the sign.

        It is a number, or a vector with one entry per copy if it depends on varying constants.
        """
        factor = scalars[self.factor.index] if isinstance(self.factor, Value) else self.factor
        return -lr * factor

    def _register(self, argument: Any, as_number: bool, as_tensor: bool) -> int:
        if isinstance(argument, Value):
            return argument.index + (self.size if argument.is_scalar and as_number else 0)
        self.literals.append((as_tensor and isinstance(argument, int | float), argument))
        return 2 * self.size + len(self.literals) - 1


def _is_tensor(argument: Any) -> bool:
    return isinstance(argument, Value) and not argument.is_scalar


def addcmul(
    x: Tensor, y: Tensor, z: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    """Return x + value*y*z; torch's function does not accept a tensor as `value`."""
    return torch.add(x, value * y * z, out=out)
