"""Formats a traced rule as readable Python source."""

from __future__ import annotations

import builtins
import dis
import inspect
import keyword
import textwrap
from collections.abc import Callable
from typing import Any

from optsmith._errors import OptimizerError
from optsmith.optim._code import Instruction, Value
from optsmith.optim._program import Program
from optsmith.rules import ATOM, POWER, PREFIX, PRODUCT, SUM, Whole, WholeState, zeros

_COMPARE = 0
_INFIX = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT)}
_INFIX |= {"remainder": ("%", PRODUCT), "pow": ("**", POWER)}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_RESERVED = {"g", "tau", "k", "torch", "math", "state", "scalars", "uniforms", "update", "like"}
_AVAILABLE = {"torch", "Tensor", *dir(builtins)}

Fragment = tuple[str, int]
"""Source of an expression, and its precedence."""


class SourceCode:
    """The source of a program's functions for the scalars of a step and the update of a tensor.

    Expressions that are used once are inlined; inputs, state and expressions that are used more
    than once are assigned to variables.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.code = program.code
        self.helpers: dict[str, str] = {}
        self._text: dict[Value, Fragment] = {
            self.code.gradient: ("g", ATOM),
            self.code.tau: ("tau", ATOM),
            self.code.count: ("k", ATOM),
        }
        self._boolean: set[Value] = set()
        self._names: set[str] = set(_RESERVED)
        self._uses = self._count_uses()
        self.inits = [self._init(slot.init) for slot in self.code.slots]
        self.slots = [self._name(slot.name.replace(".", "_")) for slot in self.code.slots]
        self.uniforms = [self._name(f"uniform_{i}") for i in range(len(self.code.uniforms))]
        for value, name in zip(self.code.uniforms, self.uniforms, strict=True):
            self._text[value] = (name, ATOM)
        for slot, name in zip(self.code.slots, self.slots, strict=True):
            self._text[slot.before] = (name, ATOM)
        for index, constant in enumerate(program.constants):
            if constant is not None:
                self._text[Value(index, True)] = self._literal(float(constant))
        self.scalar_lines = self._lines(
            [i for i in self.code.scalars if i.out not in self._text], self._needed_scalars()
        )
        self.scalars = [self._text[v][0] for v in self._needed_scalars()]
        self.update_lines = self._lines(self.code.body, [slot.after for slot in self.code.slots])
        self.new_slots = [self._text[slot.after][0] for slot in self.code.slots]
        self.result = self._text[self.code.result][0]

    def _count_uses(self) -> dict[Value, int]:
        uses: dict[Value, int] = {}
        for instruction in (*self.code.scalars, *self.code.body):
            for value in instruction.inputs:
                uses[value] = uses.get(value, 0) + 1
        return uses

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

    def _lines(self, instructions: list[Instruction], named: list[Value]) -> list[str]:
        """Return the lines of a block; values in `named` are assigned even if used once."""
        after = {slot.after: name for slot, name in zip(self.code.slots, self.slots, strict=True)}
        lines = []
        for instruction in instructions:
            out = instruction.out
            self._text[out] = self._expression(instruction)
            if out == self.code.result and out not in after and out not in named:
                continue
            label = self.code.labels.get(out)
            if out not in named and label is None and self._uses.get(out, 0) < 2:
                continue
            # New state is assigned to the slot's own name if the old state is not used later.
            name = (
                after[out]
                if self._free(out, instructions)
                else self._name(label or ("c" if out.is_scalar else "x"))
            )
            lines.append(f"{name} = {self._text[out][0]}")
            self._text[out] = (name, ATOM)
        return lines

    def _free(self, out: Value, instructions: list[Instruction]) -> bool:
        slot = next((s for s in self.code.slots if s.after == out), None)
        if slot is None:
            return False
        position = next(i for i, ins in enumerate(instructions) if ins.out == out)
        pending = {v for ins in instructions[position + 1 :] for v in ins.inputs}
        return slot.before not in pending

    # --- expressions -----------------------------------------------------------------------------

    def _expression(self, instruction: Instruction) -> Fragment:
        name, args = instruction.name, instruction.args
        if name in _COMPARISONS:
            self._boolean.add(instruction.out)
            sides = [self._enclose(self._argument(a), SUM) for a in args]
            return f"{sides[0]} {_COMPARISONS[name]} {sides[1]}", _COMPARE
        if name == "where":
            inside = ", ".join(self._argument(a, as_is=True)[0] for a in args)
            return f"torch.where({inside})", ATOM
        parts = [self._argument(a) for a in args]
        if name == "getitem":
            return f"{self._enclose(parts[0], ATOM)}[{parts[1][0]}]", ATOM
        if name == "neg":
            return f"-{self._enclose(parts[0], PREFIX)}", PREFIX
        if name == "add" and parts[0][0].startswith("-") and parts[0][1] == PREFIX:
            return f"{self._enclose(parts[1], SUM)} - {parts[0][0][1:]}", SUM
        if name in _INFIX:
            sign, binds = _INFIX[name]
            left = self._enclose(parts[0], ATOM if binds == POWER else binds)
            return f"{left} {sign} {self._enclose(parts[1], binds + 1)}", binds
        named = [f"{n}={self._argument(a)[0]}" for n, a in instruction.kwargs]
        function = instruction.function
        if isinstance(function, Whole | WholeState) or not _is_torchs(function):
            spread = ".expand_as(g)" if isinstance(function, Whole) else ""
            if isinstance(function, Whole):
                function = function.function
            elif isinstance(function, WholeState):
                function = function.update
            text = f"{self._helper(function)}({', '.join([p[0] for p in parts] + named)})"
            return text + spread, ATOM
        inside = ", ".join([p[0] for p in parts[1:]] + named)
        return f"{self._enclose(parts[0], ATOM)}.{name}({inside})", ATOM

    def _argument(self, a: Any, as_is: bool = False) -> Fragment:
        if not isinstance(a, Value):
            return self._literal(float(a)) if isinstance(a, int | float) else (repr(a), ATOM)
        if a in self._boolean and not as_is:
            # torch would convert a boolean next to a number to float32.
            wide = "double()" if a.is_scalar else "to(g.dtype)"
            return f"{self._enclose(self._text[a], ATOM)}.{wide}", ATOM
        return self._text[a]

    @staticmethod
    def _literal(number: float) -> Fragment:
        text = repr(int(number)) if number.is_integer() and abs(number) < 1e6 else repr(number)
        return text, PREFIX if text.startswith("-") else ATOM

    @staticmethod
    def _enclose(fragment: Fragment, at_least: int) -> str:
        text, binds = fragment
        return text if binds >= at_least else f"({text})"

    def _init(self, init: Callable[..., Any]) -> str:
        """Return the expression for the initial value of a slot."""
        if init is zeros:
            return "torch.zeros_like(like)"
        if _is_torchs(init):
            return f"torch.{init.__name__}(like)"
        return f"{self._helper(init)}(like)"

    def _helper(self, function: Any) -> str:
        """Add the source of a function that cannot be traced, and return its name."""
        name = getattr(function, "__name__", "")
        try:
            source = textwrap.dedent(inspect.getsource(function))
        except (OSError, TypeError):
            source = ""
        if not source.startswith("def ") or not _stands_alone(function):
            raise OptimizerError(
                f"the operator function {name or function!r} cannot be exported: define it with"
                " def, in a file, using only its arguments and torch"
            )
        if self.helpers.setdefault(name, source) != source:
            raise OptimizerError(
                f"two operator functions are named {name}: rename one to export the rule"
            )
        self._names.add(name)
        return str(name)


def _is_torchs(function: Callable[..., Any]) -> bool:
    return function.__module__ in (None, "torch", "torch._tensor")


def _stands_alone(function: Any) -> bool:
    """Return whether a function uses only its arguments, torch and Python's builtins."""
    names = {i.argval for i in dis.get_instructions(function) if i.opname == "LOAD_GLOBAL"}
    return names <= _AVAILABLE and not function.__closure__
