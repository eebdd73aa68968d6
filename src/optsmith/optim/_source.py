"""Formats a traced rule as readable Python source."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Any

from optsmith.optim._code import Instruction, Value
from optsmith.optim._fragments import (
    COMPARE,
    COMPARISONS,
    INFIX,
    OF_ITS_SHAPE,
    RESERVED,
    TAKES_TENSORS,
    Fragment,
    as_tensor,
    assigned,
    enclosed,
    literal,
)
from optsmith.optim._helpers import Helpers
from optsmith.optim._program import Program
from optsmith.rules import ATOM, POWER, PREFIX, SUM, Whole, WholeState, zeros

_LONGEST = 72  # characters of an expression that is inlined


class SourceCode:
    """The source of a program's functions for the scalars of a step and the update of a tensor.

    Expressions that are used once are inlined; inputs, state and expressions that are used more
    than once are assigned to variables.

    Args:
        program: The program.
        helpers: Collects the functions that are not traced.
    """

    def __init__(self, program: Program, helpers: Helpers) -> None:
        self.program = program
        self.code = program.code
        self.helpers = helpers
        self._text: dict[Value, Fragment] = {
            self.code.gradient: ("g", ATOM),
            self.code.parameter: ("w", ATOM),
            self.code.tau: ("tau", ATOM),
            self.code.count: ("k", ATOM),
        }
        self._boolean: set[Value] = set()
        self._literals: set[Value] = set()
        self._inlined: dict[Value, set[Value]] = {}  # what the text of a value reads
        self._names: set[str] = {*RESERVED, *self._add_helpers()}
        self._uses = self._count_uses()
        self.inits = [self._init(slot.init) for slot in self.code.slots]
        self.slots = [self._name(slot.name.replace(".", "_")) for slot in self.code.slots]
        self.uniforms = [self._name(f"uniform_{i}") for i in range(len(self.code.uniforms))]
        for value, name in zip(self.code.uniforms, self.uniforms, strict=True):
            self._text[value] = (name, ATOM)
        for slot, name in zip(self.code.slots, self.slots, strict=True):
            self._text[slot.before] = (name, ATOM)
        self._write_constants()
        self.scalar_lines = self._lines(
            [i for i in self.code.scalars if i.out not in self._text], self._needed_scalars()
        )
        self.scalars = [self._text[v][0] for v in self._needed_scalars()]
        self.update_lines = self._lines(self.code.body, [slot.after for slot in self.code.slots])
        self.new_slots = [self._text[slot.after][0] for slot in self.code.slots]
        self.result = self._text[self.code.result][0]

    def _add_helpers(self) -> list[str]:
        """Add all functions that are not traced, and return the names of all helpers."""
        for slot in self.code.slots:
            self._init(slot.init)
        for instruction in (*self.code.scalars, *self.code.body):
            if instruction.name == "call":
                self._helper(instruction.function)
        return list(self.helpers.sources)

    def _count_uses(self) -> dict[Value, int]:
        uses: dict[Value, int] = {}
        for instruction in (*self.code.scalars, *self.code.body):
            for value in instruction.inputs:
                uses[value] = uses.get(value, 0) + 1
        return uses

    def _write_constants(self) -> None:
        """Write constants as numbers, and as 1 - 0.9 where the number has many digits."""
        known = self.program.constants
        instructions = {i.out: i for i in self.code.scalars if known[i.out.index] is not None}
        for value in (*self.code.constants, *instructions):
            self._literals.add(value)
            self._text[value] = literal(float(known[value.index]))
            instruction = instructions.get(value)
            if instruction and instruction.name in ("neg", "add", "sub", "mul"):
                text, binds = self._expression(instruction)
                if len(text) < len(self._text[value][0]):
                    self._text[value] = text, binds

    def _needed_scalars(self) -> list[Value]:
        """Return the scalars that the update reads and that are not constant."""
        read = {v for i in self.code.body for v in i.inputs if v.is_scalar}
        if self.code.result.is_scalar:
            read.add(self.code.result)
        constant = {i for i, c in enumerate(self.program.constants) if c is not None}
        return sorted((v for v in read if v.index not in constant), key=lambda v: v.index)

    def _name(self, wanted: str) -> str:
        name = wanted
        number = 2
        while name in self._names or keyword.iskeyword(name):
            name = f"{wanted}_{number}"
            number += 1
        self._names.add(name)
        return name

    # --- lines -----------------------------------------------------------------------------------

    def _lines(self, instructions: list[Instruction], named: list[Value]) -> list[str]:
        """Return the lines of a block; values in `named` are assigned even if used once."""
        after = {slot.after: name for slot, name in zip(self.code.slots, self.slots, strict=True)}
        lines = []
        for at, instruction in enumerate(instructions):
            out = instruction.out
            if out in self._text:  # unpacked already
                continue
            pending = instructions[at + 1 :]
            if isinstance(instruction.function, WholeState):
                lines += self._unpacked(instruction, pending)
                continue
            self._text[out] = self._expression(instruction)
            reads = (self._inlined.get(v, {v}) for v in instruction.inputs)
            self._inlined[out] = {v for values in reads for v in values}
            if out == self.code.result and out not in after and out not in named:
                continue
            label = self.code.labels.get(out)
            is_short = self._uses.get(out, 0) < 2 and len(self._text[out][0]) <= _LONGEST
            if out not in named and label is None and is_short:
                continue
            # New state is assigned to the slot's own name if the old state is not used later.
            name = (
                after[out]
                if self._free(out, pending)
                else self._name(label or after.get(out) or ("c" if out.is_scalar else "x"))
            )
            lines.append(f"{name} = {self._text[out][0]}")
            self._assign(out, name)
        return lines

    def _assign(self, value: Value, name: str) -> None:
        self._text[value] = (name, ATOM)
        self._inlined[value] = {value}

    def _free(self, out: Value, pending: list[Instruction]) -> bool:
        """Return whether a slot's name can be assigned to, because its old value is not read."""
        slot = next((s for s in self.code.slots if s.after == out), None)
        if slot is None:
            return False
        wanted = {v for instruction in pending for v in instruction.inputs}
        wanted |= {self.code.result, *(s.after for s in self.code.slots)}
        return not any(slot.before in self._inlined.get(v, {v}) for v in wanted - {out})

    def _unpacked(self, call: Instruction, pending: list[Instruction]) -> list[str]:
        """Return the line that assigns the new slots of an operator on whole tensors.

        The tracer's copies of its results are left out for the package's own functions, which
        return tensors that share no memory.
        """
        picks = [i for i in pending if i.name == "getitem" and i.args[0] == call.out]
        copies = {i.args[0]: i.out for i in pending if i.name == "clone"}
        text = self._expression(call)[0]
        if not _is_ours(call.function.update):  # type: ignore[attr-defined]
            name = self._name("x")
            self._assign(call.out, name)
            return [f"{name} = {text}"]
        names = []
        for pick in sorted(picks, key=lambda i: int(i.args[1])):
            new = copies[pick.out]
            slot = self.slots[[slot.after for slot in self.code.slots].index(new)]
            names.append(slot if self._free(new, pending) else self._name(slot))
            self._assign(pick.out, names[-1])
            self._assign(new, names[-1])
        return [f"{assigned(names)} = {text}"]

    # --- expressions -----------------------------------------------------------------------------

    def _expression(self, instruction: Instruction) -> Fragment:
        name, args = instruction.name, instruction.args
        if name in COMPARISONS:
            self._boolean.add(instruction.out)
            sides = [enclosed(self._argument(a), SUM) for a in args]
            return f"{sides[0]} {COMPARISONS[name]} {sides[1]}", COMPARE
        if name == "where":
            return self._where(instruction)
        parts = [self._argument(a) for a in args]
        if name == "getitem":
            return f"{enclosed(parts[0], ATOM)}[{parts[1][0]}]", ATOM
        if name == "neg":
            return f"-{enclosed(parts[0], PREFIX)}", PREFIX
        if name == "add" and parts[0][0].startswith("-") and parts[0][1] == PREFIX:
            return f"{enclosed(parts[1], SUM)} - {parts[0][0][1:]}", SUM
        if name in INFIX:
            sign, binds = INFIX[name]
            left = enclosed(parts[0], ATOM if binds == POWER else binds)
            return f"{left} {sign} {enclosed(parts[1], binds + 1)}", binds
        named = [f"{n}={self._argument(a)[0]}" for n, a in instruction.kwargs]
        function = instruction.function
        if name == "call":
            if isinstance(function, Whole | WholeState):
                parts = [self._plain(a, part) for a, part in zip(args, parts, strict=True)]
            text = f"{self._helper(function)}({', '.join([p[0] for p in parts] + named)})"
            may_be_number = isinstance(function, Whole) and function.name not in OF_ITS_SHAPE
            return text + (".expand_as(g)" if may_be_number else ""), ATOM
        for i in range(2 if name in TAKES_TENSORS else 1):
            if self._is_literal(args[i]):
                parts[i] = as_tensor(parts[i], instruction.out.is_scalar)
        inside = ", ".join([p[0] for p in parts[1:]] + named)
        return f"{enclosed(parts[0], ATOM)}.{name}({inside})", ATOM

    def _plain(self, a: Any, part: Fragment) -> Fragment:
        """Return an argument of a function of whole tensors, with scalars as Python numbers."""
        is_tensor = isinstance(a, Value) and a.is_scalar and a not in self._literals
        return (f"float({part[0]})", ATOM) if is_tensor else part

    def _where(self, instruction: Instruction) -> Fragment:
        parts = [self._argument(a, as_is=True) for a in instruction.args]
        if all(map(self._is_literal, instruction.args[1:])):
            # torch would give whole numbers or single precision.
            parts[1] = as_tensor(parts[1], instruction.out.is_scalar)
        return f"torch.where({', '.join(text for text, _ in parts)})", ATOM

    def _argument(self, a: Any, as_is: bool = False) -> Fragment:
        if not isinstance(a, Value):
            return literal(float(a)) if isinstance(a, int | float) else (repr(a), ATOM)
        if a in self._boolean and not as_is:
            # torch would convert a boolean next to a number to float32.
            wide = "double()" if a.is_scalar else "to(g.dtype)"
            return f"{enclosed(self._text[a], ATOM)}.{wide}", ATOM
        return self._text[a]

    def _is_literal(self, a: Any) -> bool:
        return a in self._literals if isinstance(a, Value) else isinstance(a, int | float)

    def _init(self, init: Callable[..., Any]) -> str:
        """Return the expression for the initial value of a slot."""
        if init is zeros:
            return "torch.zeros_like(like)"
        if _is_torchs(init):
            return f"torch.{init.__name__}(like)"
        return f"{self.helpers.add(init)}(like)"

    def _helper(self, function: Any) -> str:
        """Add a function that is not traced, and return its name."""
        if isinstance(function, Whole):
            return self.helpers.add(function.function, returns_tensor=True)
        return self.helpers.add(function.update if isinstance(function, WholeState) else function)


def _is_torchs(function: Callable[..., Any]) -> bool:
    return function.__module__ in (None, "torch", "torch._tensor")


def _is_ours(function: Callable[..., Any]) -> bool:
    return str(function.__module__).startswith("optsmith.")
