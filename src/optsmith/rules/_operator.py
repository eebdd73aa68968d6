"""The data model of operators: named functions of arity 0, 1 or 2 that rules are made of."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from optsmith._errors import RuleError
from optsmith._registry import Registry, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Feed = Literal["operands", "gradient", "parameter", "time", "count", "nothing"]
"""First arguments of an operator's torch function: its operands, or, for inputs, the gradient, the
parameter, tau, the number of updates, or none."""

SCALAR_FEEDS = ("time", "count", "nothing")
"""Feeds of inputs that are one number for all tensors."""

Scope = Literal["element", "tensor"]
"""What an element of the result depends on: the same element of the operands, or whole tensors."""


Scale = Literal["linear", "log", "complement"]
"""How a number is varied: in equal steps, in equal factors, or 1 minus the number in factors."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A numeric parameter of an operator, such as the bound of `clip`; low <= value < high.

    Attributes:
        name: Name in the text of rules.
        default: Default value.
        low: Smallest value.
        high: Values are below it.
        scale: How the value is varied by those who tune it.
        closed: Whether `high` itself is allowed.
        tuned: Whether the value is a constant of a rule, which can be tuned and differs between the
            copies of a stack; otherwise it is part of the rule's structure.
    """

    name: str
    default: float
    low: float = -math.inf
    high: float = math.inf
    scale: Scale = "linear"
    closed: bool = False
    tuned: bool = True

    def allows(self, value: float) -> bool:
        """Return whether a value is in the range."""
        below = value <= self.high if self.closed else value < self.high
        return math.isfinite(value) and self.low <= value and below

    @property
    def range(self) -> str:
        """The range in words."""
        return f"from {self.low:g} to {'' if self.closed else 'below '}{self.high:g}"


def zeros(x: Tensor) -> Tensor:
    """Return zeros like the operand, the default initial value of a state slot."""
    return x.new_zeros(x.shape)


@dataclass(frozen=True, slots=True)
class State:
    """State of an operator that is kept between steps, one tensor per slot.

    Operators with the same State object, operands and parameter values share their state.

    Args:
        slots: Names of the slots.
        update: `update(*operands, *slots, k, *parameters)` returns the new slots as a tuple; k
            counts the updates of this tensor from 1 (a Python number or a 0-dim tensor).
        init: Returns the initial value of a slot, given a tensor like the operand; a tuple has one
            function per slot. Slots have the operand's shape; those of an operator of scope
            "tensor" may have any shape.
        reads: Whether the operator's function receives the slots after or before the update.
        scan: Optional faster form for the probe: `scan(x, *parameters)` returns the slots that the
            operator's function receives at all steps, given an operand as a tensor of steps times
            elements.
        ignores: Number of operands, from the first, that `update` does not use. Operators that
            differ only in these share their state, too.
    """

    slots: tuple[str, ...]
    update: Callable[..., tuple[Tensor, ...]]
    init: Callable[[Tensor], Tensor] | tuple[Callable[[Tensor], Tensor], ...] = zeros
    reads: Literal["after", "before"] = "after"
    scan: Callable[..., tuple[Tensor, ...]] | None = None
    ignores: int = 0

    @property
    def inits(self) -> tuple[Callable[[Tensor], Tensor], ...]:
        """The function for the initial value of each slot."""
        return self.init if isinstance(self.init, tuple) else (self.init,) * len(self.slots)


@dataclass(frozen=True, eq=False, repr=False)
class Operator:
    """A named function, with the data to run, print, simplify and search it.

    Two operators are equal if their names and parameter values are equal; `variant` returns one
    with other values. Pickles contain name and values only: functions come from the registry.

    Args:
        name: Name in the text of rules.
        arity: Number of operands; operators of arity 0 are inputs.
        torch: Function of tensors. Its arguments are, in this order: those given by `feed`; for an
            operator with state, the slots and k; for a random operator, a tensor of
            uniform numbers in [0, 1); the parameter values. It must not modify them in place.
        sympy: The function for SymPy; its arguments are the `sympy` module, the operands and the
            parameter values. Without it, simplification treats the operator as opaque.
        latex: Template with one %s per operand; by default the name.
        symbol: Infix or prefix sign in texts, for arithmetic operators only.
        feed: The first arguments of the torch function.
        parameters: Parameters, in the order in which texts list them.
        state: State, if any.
        random: Whether it needs random numbers; each use in a rule has its own.
        bars: Whether it acts on the absolute value: it is printed with bars, and an `abs` directly
            inside is omitted.
        values: Parameter values; by default those of `parameters`.
        scope: "element" for element-wise functions; "tensor" for functions of whole tensors, such
            as a norm. The latter are called with one tensor of a model at a time in its original
            shape, and return a tensor of that shape or a number (a 0-dim tensor).
        words: Description in a few words, for users.
    """

    name: str
    arity: int
    torch: Callable[..., Any]
    sympy: Callable[..., Any] | None = None
    latex: str = ""
    symbol: str = ""
    feed: Feed = "operands"
    parameters: tuple[Parameter, ...] = ()
    state: State | None = None
    random: bool = False
    bars: bool = False
    values: tuple[float, ...] = field(default=())
    scope: Scope = "element"
    words: str = ""

    def __post_init__(self) -> None:
        if self.arity not in (0, 1, 2):
            raise RuleError(f"operator {self.name}: arity must be 0, 1 or 2, not {self.arity}")
        if (self.arity == 0) == (self.feed == "operands"):
            raise RuleError(
                f"operator {self.name}: a feed (gradient, parameter, time, count or nothing) is"
                " required for arity 0 and not allowed otherwise"
            )
        if self.scope not in ("element", "tensor"):
            raise RuleError(
                f'operator {self.name}: scope must be "element" or "tensor", not {self.scope!r}'
            )
        if self.scope == "tensor" and self.feed in SCALAR_FEEDS:
            raise RuleError(
                f"operator {self.name}: the scope of an input with feed {self.feed!r} must be"
                ' "element", because it is one number for all tensors'
            )
        if not self.values:
            object.__setattr__(self, "values", tuple(p.default for p in self.parameters))
        if len(self.values) != len(self.parameters):
            raise RuleError(f"{self.name} has {len(self.parameters)} parameters")
        for parameter, value in zip(self.parameters, self.values, strict=True):
            if not parameter.allows(value):
                raise RuleError(
                    f"{parameter.name} of {self.name} must be a number {parameter.range},"
                    f" not {value:g}"
                )

    @cached_property
    def key(self) -> tuple[str, tuple[float, ...]]:
        """Name and values, by which operators are compared."""
        return (self.name, self.values)

    @cached_property
    def is_default(self) -> bool:
        """Whether every parameter has its default value."""
        return all(p.default == v for p, v in zip(self.parameters, self.values, strict=True))

    @cached_property
    def definition(self) -> str:
        """Hash of functions, state, declared parameters and scope, but not the name."""
        from optsmith.rules._definition import definition_of  # needs `inspect` and `ast`

        return definition_of(self)

    def variant(self, *values: float, **named: float) -> Operator:
        """Return this operator with other parameter values, in order or by name."""
        if len(values) > len(self.parameters):
            takes = ", ".join(p.name for p in self.parameters) or "none"
            raise RuleError(f"too many parameters for {self.name}: it takes {takes}")
        chosen = dict(zip((p.name for p in self.parameters), self.values, strict=True))
        for parameter, value in zip(self.parameters, values, strict=False):
            if parameter.name in named:
                raise RuleError(f"{self.name}: {parameter.name} is given twice")
            chosen[parameter.name] = float(value)
        for name, value in named.items():
            if name not in chosen:
                hint = did_you_mean(name, chosen)
                raise RuleError(f"{self.name} has no parameter {name}{hint}")
            chosen[name] = float(value)
        return replace(self, values=tuple(chosen.values()))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Operator) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        values = "" if self.is_default else f"({', '.join(map(format_number, self.values))})"
        return f"{self.name}{values}"

    def __reduce__(self) -> tuple[Callable[..., Operator], tuple[str, tuple[float, ...]]]:
        return (find_operator, self.key)


class OperatorRegistry(Registry[Operator]):
    """Operators by name, as used in the text of rules."""

    def register(self, operator: Operator) -> Operator:
        """Add an operator and return it."""
        if not NAME.fullmatch(operator.name):
            raise RuleError(
                f"the name of an operator must be letters, digits and _, not {operator.name!r}"
            )
        return self.add(operator.name, operator)


operators = OperatorRegistry("operator")


def format_number(value: float) -> str:
    """Return the shortest text that reads back as the same number."""
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)


@lru_cache(maxsize=4096)
def number(value: float) -> Operator:
    """Return a constant as an input; it must be finite and not negative."""
    value = float(value) + 0.0
    if not math.isfinite(value) or value < 0:
        raise RuleError(f"a constant must be finite and not negative, not {value}")
    text = format_number(value)
    return Operator(
        text,
        arity=0,
        feed="nothing",
        torch=lambda: value,
        # Rational(text) represents 0.1 exactly, so that sums of decimal numbers are exact.
        sympy=lambda sp: sp.Rational(text),
    )


def is_number(operator: Operator) -> bool:
    """Return whether an operator is a number."""
    return operator.name[:1].isdigit()


def find_operator(name: str, values: tuple[float, ...] = ()) -> Operator:
    """Return the operator with this name and these values, such as those of a stored key."""
    if name in operators:
        return operators[name].variant(*values)
    try:
        return number(float(name))
    except ValueError:
        raise operators.unknown(name) from None
