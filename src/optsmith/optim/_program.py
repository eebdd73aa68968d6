"""`Program`: a rule compiled to pure functions with explicit state."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from optsmith.optim._code import Code, Instruction, Value
from optsmith.optim._trace import trace
from optsmith.rules import (
    OverCopies,
    Rule,
    Scope,
    constants,
    init_copies,
    stream_key,
    uniform,
)

Scalars = list[Any]
"""The scalars of one step at the indices of their values; other entries are None."""

# Python's arithmetic has the same results as torch's on 0-dim tensors, at a tenth of the cost.
_ON_NUMBERS: dict[str, Callable[..., float]] = {
    "abs": abs,
    "add": operator.add,
    "cos": math.cos,
    "div": operator.truediv,
    "eq": operator.eq,
    "exp": math.exp,
    "gt": operator.gt,
    "lt": operator.lt,
    "mul": operator.mul,
    "neg": operator.neg,
    "pow": math.pow,
    "remainder": operator.mod,
    "sqrt": math.sqrt,
    "sub": operator.sub,
    "where": lambda condition, x, y: x if condition else y,
}


_Number = tuple[int, Callable[..., float], list[int], Instruction]
"""A scalar computed per step: its index, its function and arguments, and its instruction."""


def math_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the precision of state and arithmetic: float32 for half precision, else `dtype`."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


class Program:
    """A rule as straight-line tensor code; `apply` is the reference for all back ends.

    A program of scope "element" can be run on a tensor, on a flat vector or on a stack of copies;
    one of scope "tensor" calls functions that need whole tensors. State is an argument and a result
    and contains only what the rule needs.

    Args:
        rule: The rule.
        settings: Rules that differ from it in constants only, one per copy of a stack. Scalars that
            depend on these constants are vectors with one entry per copy.

    Attributes:
        scope: "tensor" if an operator of the rule has that scope, else "element".
        varies: Whether the constants differ between copies.

    Raises:
        RuleError: The rule depends on the role of a parameter: see `for_role`.
    """

    def __init__(self, rule: Rule, settings: Sequence[Rule] = ()) -> None:
        self.rule = rule
        self.code: Code = trace(rule)
        self._given = _constants(self.code, rule, settings)
        self.varies = any(isinstance(c, Tensor) for c in self._given.values())
        self.scope: Scope = "tensor" if whole_operators(rule) else "element"
        self._over_copies = {
            i.out: OverCopies(i.function) for i in self.code.body if i.scope == "tensor"
        }
        self.uses_time = rule.uses("time")
        self.uses_parameter = rule.uses("parameter")
        self.is_random = bool(self.code.uniforms)
        self.slots = tuple(slot.name for slot in self.code.slots)
        self.constants, per_step = self._fold()
        self._start: Scalars = self.constants.copy()  # followed by the literals of `_numbers`
        self._vectors = {i for i, c in enumerate(self.constants) if isinstance(c, Tensor)}
        self._numbers = [self._number(instruction) for instruction in per_step]
        read = {v.index for i in self.code.body for v in i.inputs if v.is_scalar}
        self.reads = sorted(
            read | ({self.code.result.index} if self.code.result.is_scalar else set())
        )

    def _fold(self) -> tuple[Scalars, list[Instruction]]:
        """Return the values of constant scalars, and the instructions to run per step."""
        constants: Scalars = [None] * self.code.size
        for value, constant in self._given.items():
            constants[value.index] = constant
        per_step = []
        for instruction in self.code.scalars:
            if all(constants[v.index] is not None for v in instruction.inputs):
                constants[instruction.out.index] = _scalar(instruction, constants)
            else:
                per_step.append(instruction)
        return constants, per_step

    def _number(self, instruction: Instruction) -> _Number:
        """Return an instruction in a form that is fast to evaluate."""
        args = []
        for a in instruction.args:
            args.append(a.index if isinstance(a, Value) else len(self._start))
            self._start += [] if isinstance(a, Value) else [a]
        plain = None if instruction.kwargs else _ON_NUMBERS.get(instruction.name)
        if any(v.index in self._vectors for v in instruction.inputs):
            self._vectors.add(instruction.out.index)
            plain = None
        return instruction.out.index, plain or _cannot, args, instruction

    def init(self, param: Tensor, copies: bool = False) -> tuple[Tensor, ...]:
        """Return the initial state of a parameter.

        Args:
            param: The parameter.
            copies: Whether the first dimension is that of copies.
        """
        like = torch.zeros_like(param, dtype=math_dtype(param.dtype))
        return tuple(
            init_copies(slot.init, like) if copies and slot.scope == "tensor" else slot.init(like)
            for slot in self.code.slots
        )

    def scalars(self, t: int, total: int, count: int) -> Scalars:
        """Return the scalars of step t for tensors with `count` updates, this one included.

        Steps are 1 … total, so tau = t/(total + 1) is never 0 or 1. After step `total` it keeps its
        last value.
        """
        values = self._start.copy()
        values[self.code.tau.index] = min(t, total) / (total + 1)
        values[self.code.count.index] = float(count)
        for out, plain, args, instruction in self._numbers:
            try:
                values[out] = plain(*[values[i] for i in args])
            except (ArithmeticError, ValueError):
                values[out] = _scalar(instruction, values)
        del values[self.code.size :]
        return values

    def is_vector(self, index: int) -> bool:
        """Return whether the scalar with this index varies between copies."""
        return index in self._vectors

    def rows(self, scalars: Scalars, rows: slice) -> Scalars:
        """Return the scalars of some copies; those that do not vary are shared by all copies."""
        return [x[rows] if isinstance(x, Tensor) else x for x in scalars]

    def tensors(self, scalars: Scalars, dtype: torch.dtype, dims: int = 0) -> Scalars:
        """Return the scalars that the update reads, as 0-dim tensors of the given precision.

        Args:
            scalars: The result of `scalars`.
            dtype: The precision.
            dims: Dimensions of a copy; scalars that vary get as many of length 1, so that they are
                combined with a stack of copies.
        """
        values: Scalars = [None] * self.code.size
        for index in self.reads:
            number = scalars[index]
            if isinstance(number, Tensor):
                kind = torch.bool if number.dtype == torch.bool else dtype
                values[index] = number.to(kind).view(-1, *[1] * dims)
            else:
                kind = torch.bool if isinstance(number, bool) else dtype
                values[index] = torch.tensor(number, dtype=kind)
        return values

    def keys(self, seed: int, parameter: int) -> list[int]:
        """Return the keys of the random streams of a parameter, one per random operator."""
        return [stream_key(seed, node, parameter) for node in range(len(self.code.uniforms))]

    def uniforms(
        self, keys: Sequence[int | Tensor], t: int | Tensor, elements: Tensor, dtype: torch.dtype
    ) -> list[Tensor]:
        """Return the random numbers of step t for elements of a parameter, one tensor per key."""
        return [uniform(key, t, elements).to(dtype) for key in keys]

    def apply(
        self,
        gradient: Tensor,
        state: Sequence[Tensor],
        scalars: Scalars,
        uniforms: Sequence[Tensor] = (),
        copies: bool = False,
        parameter: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the update and the new state of a tensor, without in-place changes.

        Args:
            gradient: The gradient, in the precision of the arithmetic.
            state: The result of `init` or of the previous step.
            scalars: The result of `tensors`.
            uniforms: The result of `uniforms`, if the rule is random.
            copies: Whether the first dimension of the tensors is that of copies.
            parameter: The parameter in the precision of the arithmetic, if `uses_parameter`.
        """
        values = scalars.copy()
        values[self.code.gradient.index] = gradient
        values[self.code.parameter.index] = parameter
        for slot, tensor in zip(self.code.slots, state, strict=True):
            values[slot.before.index] = tensor
        for value, numbers in zip(self.code.uniforms, uniforms, strict=True):
            values[value.index] = numbers
        for instruction in self.code.body:
            over = self._over_copies.get(instruction.out) if copies else None
            values[instruction.out.index] = call(instruction, values, over)
        result = values[self.code.result.index]
        if self.code.result.is_scalar:
            result = torch.zeros_like(gradient) + result
        return result, tuple(values[slot.after.index] for slot in self.code.slots)

    def update(
        self,
        gradients: Sequence[Tensor],
        state: Sequence[tuple[Tensor, ...]],
        t: int,
        total: int,
        seed: int = 0,
        params: Sequence[Tensor] = (),
    ) -> tuple[list[Tensor], list[tuple[Tensor, ...]]]:
        """Return the updates and the new states of all parameters at step t of `total`.

        The parameters are then updated by `parameter -= lr * update`. They must be given if
        `uses_parameter`.
        """
        scalars = self.scalars(t, total, t)
        updates, states = [], []
        for i, (gradient, slots) in enumerate(zip(gradients, state, strict=True)):
            dtype = math_dtype(gradient.dtype)
            noise = self.uniforms(self.keys(seed, i), t, element_numbers(gradient), dtype)
            numbers = self.tensors(scalars, dtype)
            param = params[i].to(dtype) if self.uses_parameter else None
            update, new = self.apply(gradient.to(dtype), slots, numbers, noise, parameter=param)
            updates.append(update)
            states.append(new)
        return updates, states


def whole_operators(rule: Rule) -> list[str]:
    """Return the names of a rule's operators of scope "tensor"."""
    return list(dict.fromkeys(o.name for o in rule.operators if o.scope == "tensor"))


def element_numbers(tensor: Tensor) -> Tensor:
    """Return the index of each element in a contiguous tensor of this shape."""
    return torch.arange(tensor.numel(), device=tensor.device).view(tensor.shape)


def _cannot(*_: float) -> float:
    raise ArithmeticError


def _constants(code: Code, rule: Rule, settings: Sequence[Rule]) -> dict[Value, Any]:
    """Return the value of each constant: a number, or one per copy if the copies differ."""
    rows = [[c.value for c in constants(r)] for r in (settings or (rule,))]
    columns = zip(code.constants, zip(*rows, strict=True), strict=True)
    return {
        value: column[0] if len(set(column)) == 1 else torch.tensor(column, dtype=torch.float64)
        for value, column in columns
    }


def _scalar(instruction: Instruction, values: Scalars) -> Any:
    """Return the value of a scalar in double precision, with infinities and NaN as in torch."""
    given = [values[v.index] for v in instruction.inputs]
    if any(isinstance(x, Tensor) for x in given):
        return call(instruction, _tensors_of(instruction, values))
    plain = _ON_NUMBERS.get(instruction.name)
    if plain is not None and not instruction.kwargs:
        try:
            return plain(*[values[a.index] if type(a) is Value else a for a in instruction.args])
        except (ArithmeticError, ValueError):
            pass  # torch returns inf or NaN where Python raises
    return call(instruction, _tensors_of(instruction, values)).item()


def _tensors_of(instruction: Instruction, values: Scalars) -> Mapping[int, Tensor]:
    """Return the operands of an instruction as tensors, by the index of their value."""
    return {v.index: _as_tensor(values[v.index]) for v in instruction.inputs}


def _as_tensor(number: Any) -> Tensor:
    if isinstance(number, Tensor):
        return number
    return torch.tensor(number, dtype=torch.bool if isinstance(number, bool) else torch.float64)


def call(
    instruction: Instruction,
    values: Sequence[Any] | Mapping[int, Any],
    function: Callable[..., Any] | None = None,
) -> Any:
    """Return the result of an instruction, optionally computed by another function."""
    args = [values[a.index] if isinstance(a, Value) else a for a in instruction.args]
    function = function or instruction.function
    if not instruction.kwargs:
        return function(*args)
    kwargs = {
        name: values[a.index] if isinstance(a, Value) else a for name, a in instruction.kwargs
    }
    return function(*args, **kwargs)
