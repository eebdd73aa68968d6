"""Tracing of a rule to straight-line tensor code.

Each operator's torch function is called once with symbols in place of tensors, and the operations
on the symbols are recorded as instructions. Equal instructions are recorded once, so common
sub-expressions are shared, within and between operators. Instructions that depend only on time and
constants are kept separately, to be run once per step instead of per element. The values of
constants are not part of the code. An operator of scope "tensor" is not traced: it is one call on
whole tensors.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from optsmith._errors import RuleError
from optsmith.optim._code import BOOLEAN, Code, Instruction, Slot, Value
from optsmith.optim._symbol import Symbol
from optsmith.rules import (
    BY_ROLE,
    GUARD,
    Constant,
    Operator,
    Rule,
    Scope,
    State,
    Whole,
    WholeState,
    constants,
    divide,
    is_built_in,
    is_number,
    skeleton,
    sqrt_abs,
    verify,
)


class Tracer:
    """Records the instructions of one rule."""

    def __init__(self) -> None:
        self.values = 0
        self._known: dict[Any, Value] = {}
        self._states: dict[Any, tuple[Value, ...]] = {}
        self._booleans: set[Value] = set()
        self._tied: dict[Any, Value] = {}
        self._roots: set[Value] = set()  # results of square roots
        self.code = Code(self.new(False), self.new(True), self.new(True), self.new(False))

    def new(self, is_scalar: bool) -> Value:
        """Return a new value."""
        self.values += 1
        return Value(self.values - 1, is_scalar)

    def emit(self, name: str, *args: Any, **kwargs: Any) -> Symbol:
        """Record a call of torch's function `name`, and return its result."""
        if name == "where":  # with out=, torch.where does not accept numbers
            args = tuple(self.constant(a) if isinstance(a, int | float) else a for a in args)
        elif name not in BOOLEAN and not any(map(self._is_tensor_of_numbers, args)):
            args = tuple(a if _is_scalar(a) else self._as_number(a) for a in args)
        if name == "sub" and not isinstance(args[0], Symbol):
            return self.emit("add", self.emit("neg", args[1]), args[0])
        function = getattr(torch, name, None) or getattr(Tensor, name)
        return self.write(name, function, args, kwargs)

    def _is_tensor_of_numbers(self, a: Any) -> bool:
        return isinstance(a, Symbol) and not (a.value.is_scalar or a.value in self._booleans)

    def _as_number(self, a: Any) -> Any:
        """Return a boolean as 1 or 0; torch would convert one next to a number to float32."""
        if isinstance(a, Symbol) and a.value in self._booleans:
            return self.emit("where", a, 1.0, 0.0)
        return a

    def write(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Any = None,
        scope: Scope = "element",
    ) -> Symbol:
        """Record an instruction, unless an equal one exists, and return its result."""
        plain = [a.value if isinstance(a, Symbol) else a for a in args]
        named = tuple(
            (n, a.value if isinstance(a, Symbol) else a) for n, a in (kwargs or {}).items()
        )
        if name in ("add", "mul") and not named:
            # Tensors first, as torch requires, and in a fixed order, so that a*b equals b*a.
            plain.sort(key=_rank)
        key = (function, tuple(plain), named)
        if key not in self._known:
            values = [a for a in (*plain, *(v for _, v in named)) if isinstance(a, Value)]
            out = self._known[key] = self.new(all(v.is_scalar for v in values))
            block = self.code.scalars if out.is_scalar else self.code.body
            block.append(Instruction(out, name, function, tuple(plain), named, scope))
            if name in BOOLEAN:
                self._booleans.add(out)
        return Symbol(self, self._known[key])

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Trace a function, or record it as one instruction if it cannot be traced."""
        try:
            return function(*args)
        except Exception:
            # Such as control flow on values, or functions of other libraries.
            return self.write("call", function, args)

    def constant(self, number: float) -> Symbol:
        """Return a constant as a scalar."""
        return self.write("constant", _constant, (number,))

    def runtime_constant(self, constant: Constant, operator: Operator) -> Symbol:
        """Return a constant of the rule as a scalar whose value is known only at run time.

        Operators with state share it if their constants are equal.
        """
        tie = (id(operator.state), constant.index, constant.value) if operator.state else constant
        if tie not in self._tied:
            self._tied[tie] = self.new(True)
        value = self._tied[tie]
        self.code.constants.append(value)
        return Symbol(self, value)

    def operator(
        self, operator: Operator, operands: list[Symbol], values: Sequence[Symbol | float]
    ) -> Symbol:
        """Trace an operator and return its result.

        Args:
            operator: The operator.
            operands: Its operands.
            values: Its parameter values; the value of a number.
        """
        verify(operator)
        whole = operator.scope == "tensor"
        if is_number(operator):
            (value,) = values
            return value if isinstance(value, Symbol) else self.constant(value)
        if operator.feed == "nothing":
            return self.constant(float(operator.torch(*values)))
        if operator.name == BY_ROLE:
            raise RuleError(
                f"{BY_ROLE}(x, y) is x for hidden matrices and y for other parameters: it has a"
                " program for each role"
            )
        feeds = {
            "gradient": self.code.gradient,
            "parameter": self.code.parameter,
            "time": self.code.tau,
            "count": self.code.count,
        }
        if operator.feed in feeds:
            operands = [Symbol(self, feeds[operator.feed])]
        if whole:
            if is_built_in(operator) and any(x.value.is_scalar for x in operands):
                raise RuleError(
                    f"{operator.name} needs a tensor, such as g or w, and not one number for all"
                    " parameters, such as a constant or a decay"
                )
            operands = [self._spread(x) for x in operands]
        state: tuple[Symbol, ...] = ()
        if operator.state:
            slots = self._remember(operator, operands, values)
            state = (*(Symbol(self, v) for v in slots), Symbol(self, self.code.count))
        noise: tuple[Symbol, ...] = ()
        if operator.random:
            self.code.uniforms.append(self.new(False))
            noise = (Symbol(self, self.code.uniforms[-1]),)
        args = (*operands, *state, *noise, *values)
        if whole:
            function = Whole(operator.name, operator.torch)
            result = self.write("call", function, args, scope="tensor")
        elif operator.torch is divide and operands[1].value in self._roots:
            # Not negative, so the guard of the division needs no comparison.
            result = self.emit("div", operands[0], self.emit("add", operands[1], GUARD))
        else:
            result = self.call(operator.torch, *args)
        if not isinstance(result, Symbol):
            return self.constant(float(result))
        number: Symbol = self._as_number(result)
        if operator.torch is sqrt_abs:
            self._roots.add(number.value)
        if operator.arity == 0:
            self.code.labels.setdefault(number.value, operator.name.lower())
        return number

    def _spread(self, symbol: Symbol) -> Symbol:
        """Return a scalar expanded to a tensor."""
        if not symbol.value.is_scalar:
            return symbol
        like = Symbol(self, self.code.gradient)
        return self.emit("where", self.emit("eq", like, like), symbol, symbol)

    def _remember(
        self, operator: Operator, operands: list[Symbol], values: Sequence[Symbol | float]
    ) -> tuple[Value, ...]:
        """Return the slots to read; equal states of equal operands are shared."""
        state, scope = operator.state, operator.scope
        assert state is not None  # noqa: S101
        plain = tuple(v.value if isinstance(v, Symbol) else v for v in values)
        used = operands[state.ignores :]
        key = (id(state), tuple(x.value for x in used), plain, scope)
        if key not in self._states:
            before = [Symbol(self, self.new(False)) for _ in state.slots]
            args = (*operands, *before, Symbol(self, self.code.count), *values)
            if scope == "tensor":
                function = WholeState(operator.name, state.update, len(before), len(operands))
                after = self._picked(self.write("call", function, args, scope=scope), len(before))
            else:
                given = {x.value for x in (*operands, *before)}
                after = self._update(state, args, given)
            for name, init, old, new in zip(state.slots, state.inits, before, after, strict=True):
                taken = sum(slot.name.split(".")[0] == name for slot in self.code.slots)
                unique = f"{name}.{taken + 1}" if taken else name
                self.code.slots.append(Slot(unique, init, old.value, new.value, scope))
            self._states[key] = tuple(
                x.value for x in (after if state.reads == "after" else before)
            )
        return self._states[key]

    def _update(self, state: State, args: tuple[Any, ...], given: set[Value]) -> list[Symbol]:
        """Return the new slots as distinct tensors, because each overwrites an old one.

        Args:
            state: The state.
            args: The arguments of its update.
            given: The tensors among them, which must not be new slots themselves.
        """
        try:
            return [self._slot(new, given) for new in state.update(*args)]
        except Exception:
            return self._picked(self.write("call", state.update, args), len(state.slots))

    def _picked(self, slots: Symbol, count: int) -> list[Symbol]:
        """Return the elements of a tuple as distinct tensors."""
        picks = [self.write("getitem", python.getitem, (slots, i)) for i in range(count)]
        return [self.emit("clone", pick) for pick in picks]

    def _slot(self, new: Any, given: set[Value]) -> Symbol:
        symbol = self._as_number(new if isinstance(new, Symbol) else self.constant(float(new)))
        if symbol.value.is_scalar:
            return self._spread(symbol)
        if symbol.value == self.code.parameter:
            # torch's compiler removes a clone, and then reads the parameter after its update.
            return self.emit("mul", symbol, 1.0)
        return self.emit("clone", symbol) if symbol.value in given else symbol


def _is_scalar(a: Any) -> bool:
    return isinstance(a, Symbol) and a.value.is_scalar


def _rank(argument: Any) -> tuple[int, int]:
    if not isinstance(argument, Value):
        return (2, 0)
    return (int(argument.is_scalar), argument.index)


def _constant(number: float) -> Tensor:
    return torch.tensor(number, dtype=torch.float64)


def trace(rule: Rule) -> Code:
    """Return a rule as straight-line code.

    Rules of one skeleton have the same code, which is traced once.
    """
    key = skeleton(rule)
    if key not in _traced:
        if len(_traced) >= MOST_TRACED:
            _traced.pop(next(iter(_traced)))
        _traced[key] = _trace(rule)
    return _traced[key]


MOST_TRACED = 1024
_traced: dict[Any, Code] = {}


def _trace(rule: Rule) -> Code:
    tracer = Tracer()
    numbers = {(c.at, c.index): c for c in constants(rule)}
    # Constants are numbered from the first operator to the last, but traced bottom-up.
    symbols = {
        place: tracer.runtime_constant(c, rule.operators[c.at]) for place, c in numbers.items()
    }
    stack: list[Symbol] = []
    for at in reversed(range(rule.length)):
        operator = rule.operators[at]
        operands = [stack.pop() for _ in range(operator.arity)]
        plain = (float(operator.torch()),) if is_number(operator) else operator.values
        values = [symbols.get((at, i), value) for i, value in enumerate(plain)]
        stack.append(tracer.operator(operator, operands, values))
    tracer.code.result = stack[0].value
    tracer.code.size = tracer.values
    return _without_unused(tracer.code)


def _without_unused(code: Code) -> Code:
    """Remove unused instructions, which are left by functions that could not be traced."""
    needed = {code.result, *(slot.after for slot in code.slots)}
    for block in (code.body, code.scalars):
        kept = []
        for instruction in reversed(block):
            if instruction.out in needed:
                needed.update(instruction.inputs)
                kept.append(instruction)
        block[:] = reversed(kept)
    return code
