"""From a rule to straight-line tensor code: operators are traced, not interpreted.

Each operator's torch function is called once with symbols in place of tensors; what it does to them
is written down as instructions. Equal instructions are written once, so sub-expressions are shared
between and inside operators; instructions that only involve time and constants are kept apart, as
they need doing once a step and not once an element. An operator of scope "tensor" is never traced:
it is one call on whole tensors.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from optsmith.rules import Operator, Rule, Scope, State, Whole, WholeState, verify

BOOLEAN = {
    *("lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf", "isfinite"),
    *("logical_and", "logical_not", "logical_or", "logical_xor"),
}
"""Functions whose result is a boolean."""


@dataclass(frozen=True, slots=True)
class Value:
    """What an instruction computes or reads; a scalar is one number for all elements."""

    index: int
    is_scalar: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """`out = function(*args, **kwargs)`; arguments are values or Python numbers.

    One of scope "tensor" must be given whole tensors, one at a time.
    """

    out: Value
    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()
    scope: Scope = "element"

    @property
    def inputs(self) -> list[Value]:
        """The values that it reads."""
        every = (*self.args, *(value for _, value in self.kwargs))
        return [value for value in every if isinstance(value, Value)]


@dataclass(frozen=True, slots=True)
class Slot:
    """One tensor of state: its name, how it starts, and the values that hold it at a step.

    A slot of scope "tensor" may have any shape.
    """

    name: str
    init: Callable[[Tensor], Tensor]
    before: Value
    after: Value
    scope: Scope = "element"


@dataclass(slots=True)
class Code:
    """A traced rule.

    Attributes:
        gradient: The gradient.
        tau: The time, as a share of the run.
        count: How many updates the tensor has had, this one included.
        uniforms: Uniform random numbers, one tensor for each random operator.
        scalars: Instructions to run once a step.
        body: Instructions to run for each tensor.
        slots: The state.
        result: The update.
        size: Number of values.
        labels: The inputs' names, for people who read the code.
    """

    gradient: Value
    tau: Value
    count: Value
    uniforms: list[Value] = field(default_factory=list)
    scalars: list[Instruction] = field(default_factory=list)
    body: list[Instruction] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    result: Value = field(default_factory=lambda: Value(-1, True))
    size: int = 0
    labels: dict[Value, str] = field(default_factory=dict)


class Symbol:
    """Stands for a tensor or a scalar while a function is traced."""

    __slots__ = ("tracer", "value")
    __hash__ = None  # type: ignore[assignment]  # == is traced

    def __init__(self, tracer: Tracer, value: Value) -> None:
        self.tracer = tracer
        self.value = value

    def __getattr__(self, name: str) -> Callable[..., Symbol]:
        # Attributes such as shape have no symbol: a function that asks for them is not traced.
        if name.startswith("_") or not callable(getattr(Tensor, name, None)):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.tracer.emit(name, self, *args, **kwargs)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Symbol:
        """Trace `torch.tanh(x)` as `x.tanh()`."""
        first = next(a for a in args if isinstance(a, Symbol))
        return first.tracer.emit(function.__name__, *args, **(kwargs or {}))

    def __bool__(self) -> bool:
        raise TypeError("a symbol is neither true nor false")

    def where(self, condition: Any, other: Any) -> Symbol:
        """Trace the method as the function, which wants the condition first."""
        return self.tracer.emit("where", condition, self, other)

    def __abs__(self) -> Symbol:
        return self.tracer.emit("abs", self)

    def __neg__(self) -> Symbol:
        return self.tracer.emit("neg", self)


def _infix(name: str, swapped: bool) -> Callable[[Symbol, Any], Symbol]:
    def method(self: Symbol, other: Any) -> Symbol:
        pair = (other, self) if swapped else (self, other)
        return self.tracer.emit(name, *pair)

    return method


for _python, _torch in {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "pow": "pow",
    "mod": "remainder",
}.items():
    setattr(Symbol, f"__{_python}__", _infix(_torch, swapped=False))
    setattr(Symbol, f"__r{_python}__", _infix(_torch, swapped=True))
for _python in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Symbol, f"__{_python}__", _infix(_python, swapped=False))


class Tracer:
    """Writes down the instructions of one rule."""

    def __init__(self) -> None:
        self.values = 0
        self._known: dict[Any, Value] = {}
        self._states: dict[Any, tuple[Value, ...]] = {}
        self._booleans: set[Value] = set()
        self.code = Code(self.new(False), self.new(True), self.new(True))

    def new(self, is_scalar: bool) -> Value:
        """Return a value that nothing computes yet."""
        self.values += 1
        return Value(self.values - 1, is_scalar)

    def emit(self, name: str, *args: Any, **kwargs: Any) -> Symbol:
        """Write the instruction that calls torch's function `name`."""
        if name == "where":  # takes numbers as tensors alone when it writes in place
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
        """Return 1 and 0 for a boolean; beside a number torch would make it float32."""
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
        """Write an instruction unless an equal one is there; return its result."""
        plain = [a.value if isinstance(a, Symbol) else a for a in args]
        named = tuple(
            (n, a.value if isinstance(a, Symbol) else a) for n, a in (kwargs or {}).items()
        )
        if name in ("add", "mul") and not named:
            # Tensors first, as torch wants them, then in one order: a*b is b*a.
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
        """Trace `function`, or write it as one instruction when it cannot be traced."""
        try:
            return function(*args)
        except Exception:
            # Control flow on values, a library's own function: run as it is, on tensors.
            return self.write("call", function, args)

    def constant(self, number: float) -> Symbol:
        """Return a constant as a scalar."""
        return self.write("constant", _constant, (number,))

    def operator(self, operator: Operator, operands: list[Symbol]) -> Symbol:
        """Trace one operator."""
        verify(operator)
        values, whole = operator.values, operator.scope == "tensor"
        if operator.feed == "nothing":
            return self.constant(float(operator.torch(*values)))
        feeds = {"gradient": self.code.gradient, "time": self.code.tau}
        if operator.feed in feeds:
            operands = [Symbol(self, feeds[operator.feed])]
        if whole:
            operands = [self._spread(x) for x in operands]
        state: tuple[Symbol, ...] = ()
        if operator.state:
            slots = self._remember(operator, operands[0])
            state = (*(Symbol(self, v) for v in slots), Symbol(self, self.code.count))
        noise: tuple[Symbol, ...] = ()
        if operator.random:
            self.code.uniforms.append(self.new(False))
            noise = (Symbol(self, self.code.uniforms[-1]),)
        args = (*operands, *state, *noise, *values)
        if whole:
            function = Whole(operator.name, operator.torch)
            result = self.write("call", function, args, scope="tensor")
        else:
            result = self.call(operator.torch, *args)
        if not isinstance(result, Symbol):
            return self.constant(float(result))
        number: Symbol = self._as_number(result)
        if operator.arity == 0:
            self.code.labels.setdefault(number.value, operator.name.lower())
        return number

    def _spread(self, symbol: Symbol) -> Symbol:
        """Return a scalar as a tensor, the same number for every element."""
        if not symbol.value.is_scalar:
            return symbol
        like = Symbol(self, self.code.gradient)
        return self.emit("where", self.emit("eq", like, like), symbol, symbol)

    def _remember(self, operator: Operator, operand: Symbol) -> tuple[Value, ...]:
        """Return the updated slots; equal memories of equal operands are one."""
        state, values, scope = operator.state, operator.values, operator.scope
        assert state is not None  # noqa: S101
        key = (id(state), operand.value, values, scope)
        if key not in self._states:
            before = [Symbol(self, self.new(False)) for _ in state.slots]
            args = (operand, *before, Symbol(self, self.code.count), *values)
            if scope == "tensor":
                function = WholeState(operator.name, state.update, len(before))
                after = self._picked(self.write("call", function, args, scope=scope), len(before))
            else:
                after = self._update(state, args)
            for name, old, new in zip(state.slots, before, after, strict=True):
                taken = sum(slot.name.split(".")[0] == name for slot in self.code.slots)
                unique = f"{name}.{taken + 1}" if taken else name
                self.code.slots.append(Slot(unique, state.init, old.value, new.value, scope))
            self._states[key] = tuple(new.value for new in after)
        return self._states[key]

    def _update(self, state: State, args: tuple[Any, ...]) -> list[Symbol]:
        """Return the new slots: tensors of their own, as each is written over an old one."""
        given = {a.value for a in args[: 1 + len(state.slots)]}
        try:
            return [self._slot(new, given) for new in state.update(*args)]
        except Exception:
            return self._picked(self.write("call", state.update, args), len(state.slots))

    def _picked(self, slots: Symbol, count: int) -> list[Symbol]:
        """Return the parts of a tuple, each a tensor of its own."""
        picks = [self.write("getitem", python.getitem, (slots, i)) for i in range(count)]
        return [self.emit("clone", pick) for pick in picks]

    def _slot(self, new: Any, given: set[Value]) -> Symbol:
        symbol = self._as_number(new if isinstance(new, Symbol) else self.constant(float(new)))
        if symbol.value.is_scalar:
            return self._spread(symbol)
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
    """Return the rule as straight-line code."""
    tracer = Tracer()
    result = rule.fold(tracer.operator)
    tracer.code.result = result.value
    tracer.code.size = tracer.values
    return _without_waste(tracer.code)


def _without_waste(code: Code) -> Code:
    """Remove what nothing needs: traces given up half-way."""
    needed = {code.result, *(slot.after for slot in code.slots)}
    for block in (code.body, code.scalars):
        kept = []
        for instruction in reversed(block):
            if instruction.out in needed:
                needed.update(instruction.inputs)
                kept.append(instruction)
        block[:] = reversed(kept)
    return code
