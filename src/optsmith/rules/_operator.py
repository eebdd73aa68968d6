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

Feed = Literal["operands", "gradient", "time", "nothing"]
"""What an operator's torch function is given first: its operands, the gradient g, tau, nothing."""

Scope = Literal["element", "tensor"]
"""What one value of an operator depends on: the same element alone, or the whole tensor."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that shapes an operator, such as the bound of `clip`; low <= value < high."""

    name: str
    default: float
    low: float = -math.inf
    high: float = math.inf


def zeros(x: Tensor) -> Tensor:
    """Return the usual first value of a state slot: zeros like the operand."""
    return x.new_zeros(x.shape)


@dataclass(frozen=True, slots=True)
class State:
    """What an operator remembers of its operand from step to step, one tensor per slot.

    Operators that share a State object (and operand and parameters) share its memory.

    Args:
        slots: A name for each tensor.
        update: `update(x, *slots, k, *parameters)` returns the new slots as a tuple; k counts
            the updates of this tensor from 1 (a Python number or a 0-dim tensor).
        init: Makes the first value of every slot from a tensor like the operand. Slots have the
            operand's shape, those of an operator of scope "tensor" any shape.
    """

    slots: tuple[str, ...]
    update: Callable[..., tuple[Tensor, ...]]
    init: Callable[[Tensor], Tensor] = zeros


@dataclass(frozen=True, eq=False, repr=False)
class Operator:
    """A named function, with what is needed to run, print, simplify and search over it.

    Two operators are equal when name and parameter values are; a variant with other values is
    made with `variant`. Pickling keeps the name and the values: functions come from the registry.

    Args:
        name: How it is written in rules.
        arity: Number of operands; operators of arity 0 are the inputs.
        torch: Function of tensors, called with, in this order: what `feed` says; for operators
            with state, the updated slots and k; for random ones, a tensor of uniform numbers in
            [0, 1); the parameter values. It changes none of them in place.
        sympy: The same for SymPy, called with the `sympy` module, the operands and the parameter
            values. Without it the operator is opaque to simplification.
        latex: Template with one %s per operand; by default the name.
        symbol: The infix or prefix sign in texts, for the arithmetic operators alone.
        feed: What the torch function is given first.
        parameters: Declared parameters, in the order in which texts give them.
        state: What it remembers, if anything.
        random: Whether it needs random numbers; each use of it in a rule gets its own.
        bars: Whether it acts on the absolute value: printed with bars, and an `abs` written
            directly inside is absorbed.
        values: Parameter values; the defaults unless given.
        scope: "element" for element-wise functions; "tensor" for functions of whole tensors, such
            as a norm. These are given one tensor of a model at a time, in its own shape, and
            return a tensor of that shape or one number (a 0-dim tensor).
        words: What it is, in a few words for people.
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
                f"operator {self.name}: operators of arity 0, and they alone, take a feed"
                " (gradient, time or nothing)"
            )
        if self.scope not in ("element", "tensor"):
            raise RuleError(
                f'operator {self.name}: scope is "element" or "tensor", not {self.scope!r}'
            )
        if self.scope == "tensor" and self.feed in ("time", "nothing"):
            raise RuleError(
                f"operator {self.name}: an input of feed {self.feed!r} is one number for all"
                ' tensors, its scope is "element"'
            )
        if self.state and self.arity > 1:
            raise RuleError(f"operator {self.name}: state is for operators of one operand")
        if not self.values:
            object.__setattr__(self, "values", tuple(p.default for p in self.parameters))
        if len(self.values) != len(self.parameters):
            raise RuleError(f"{self.name} has {len(self.parameters)} parameters")
        for parameter, value in zip(self.parameters, self.values, strict=True):
            if not (parameter.low <= value < parameter.high and math.isfinite(value)):
                raise RuleError(
                    f"{parameter.name} of {self.name} must be a number from {parameter.low:g} to"
                    f" below {parameter.high:g}, not {value:g}"
                )

    @cached_property
    def key(self) -> tuple[str, tuple[float, ...]]:
        """Name and values: what makes two operators equal."""
        return (self.name, self.values)

    @cached_property
    def is_default(self) -> bool:
        """Whether every parameter has its default value."""
        return all(p.default == v for p, v in zip(self.parameters, self.values, strict=True))

    @cached_property
    def definition(self) -> str:
        """Hash of what it computes: functions, state, declared parameters, scope; not its name."""
        from optsmith.rules._definition import definition_of  # needs `inspect` and `ast`

        return definition_of(self)

    def variant(self, *values: float, **named: float) -> Operator:
        """Return this operator with other parameter values, in order or by name."""
        if len(values) > len(self.parameters):
            takes = ", ".join(p.name for p in self.parameters) or "none"
            raise RuleError(f"{self.name} has too many parameters: it takes {takes}")
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
    """The operators that texts may name."""

    def register(self, operator: Operator) -> Operator:
        """Add an operator, so that texts can name it, and return it."""
        if not NAME.fullmatch(operator.name):
            raise RuleError(f"an operator's name is letters, digits and _, not {operator.name!r}")
        return self.add(operator.name, operator)


operators = OperatorRegistry("operator")


def format_number(value: float) -> str:
    """Return the shortest text that reads back as the same number."""
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)


@lru_cache(maxsize=4096)
def number(value: float) -> Operator:
    """Return the constant `value` as an input operator; it is finite and not negative."""
    value = float(value) + 0.0
    if not math.isfinite(value) or value < 0:
        raise RuleError(f"a constant is finite and not negative, not {value}")
    text = format_number(value)
    return Operator(
        text,
        arity=0,
        feed="nothing",
        torch=lambda: value,
        # Rational(text) keeps 0.1 exact, so that sums of literals stay what people wrote.
        sympy=lambda sp: sp.Rational(text),
    )


def find_operator(name: str, values: tuple[float, ...] = ()) -> Operator:
    """Return the operator of a pickled or stored key."""
    if name in operators:
        return operators[name].variant(*values)
    try:
        return number(float(name))
    except ValueError:
        raise operators.unknown(name) from None
