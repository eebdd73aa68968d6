"""Straight-line tensor code: the result of tracing a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from optsmith.rules import Scope

BOOLEAN = {
    *("lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf", "isfinite"),
    *("logical_and", "logical_not", "logical_or", "logical_xor"),
}
"""Names of functions with boolean results."""


@dataclass(frozen=True, slots=True)
class Value:
    """An input or a result of instructions: a tensor, or a scalar shared by all elements."""

    index: int
    is_scalar: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """`out = function(*args, **kwargs)`; arguments are values or Python numbers.

    An instruction of scope "tensor" must be called with whole tensors, one at a time.
    """

    out: Value
    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()
    scope: Scope = "element"

    @property
    def inputs(self) -> list[Value]:
        """The values among the arguments."""
        every = (*self.args, *(value for _, value in self.kwargs))
        return [value for value in every if isinstance(value, Value)]


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor of state: its name, its initial value, and its values before and after a step.

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
        tau: Time as a fraction of the run.
        count: Number of updates of the tensor, including the current one.
        parameter: The parameter.
        constants: The scalar of each constant of the rule; tied constants have the same one.
        uniforms: Uniform random numbers, one tensor per random operator.
        scalars: Instructions to run once per step.
        body: Instructions to run per tensor.
        slots: The state.
        result: The update.
        size: Number of values.
        labels: Names of inputs, for readable exported code.
    """

    gradient: Value
    tau: Value
    count: Value
    parameter: Value
    constants: list[Value] = field(default_factory=list)
    uniforms: list[Value] = field(default_factory=list)
    scalars: list[Instruction] = field(default_factory=list)
    body: list[Instruction] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    result: Value = field(default_factory=lambda: Value(-1, True))
    size: int = 0
    labels: dict[Value, str] = field(default_factory=dict)
