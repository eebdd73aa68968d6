"""Memory and time of a rule's step, counted from its program.

Both are the same on every machine and at every load, so a search with limits can be repeated. Rules
with `hidden` have two programs: the state is that of hidden matrices, which are most of a model,
and the cost is the larger of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from optsmith._torch import eigh_operation
from optsmith.optim import Plan, Program
from optsmith.rules import Rule, for_role

SHAPE = (256, 256)
"""Shape of the tensor for which operators on whole tensors are counted."""

# Costs beyond reading and writing an element, in units of one access to it. They were fitted to
# measured steps of 20 rules on a CPU, most of which the model predicts within a factor of 1.4.
_SLOW = {"exp": 1, "log": 4, "sin": 2, "cos": 2, "tanh": 2, "pow": 16, "remainder": 2}
_RANDOM = 30  # a hash of 64-bit integers
_FLOP = 1 / 8  # an operation of a matrix product; relatively cheaper on a GPU
_EIGH = 9  # an eigendecomposition takes as long as this many products, measured on a CPU


def state_bytes_of(rule: Rule) -> float:
    """Return the bytes of optimizer state per parameter of a hidden matrix in single precision."""
    like = torch.zeros(SHAPE)
    program = Program(for_role(rule, is_hidden=True))
    return sum(slot.nbytes for slot in program.init(like)) / like.numel()


def step_cost_of(rule: Rule) -> float:
    """Return the time of a step of a rule as a multiple of Adam's, by a model.

    The model counts how often a step reads or writes an element of a tensor, since steps of large
    models are limited by the bandwidth of memory. Slow functions, random numbers, matrix products
    and decompositions count as further accesses.
    """
    parts = {for_role(rule, is_hidden) for is_hidden in (True, False)}
    return max(map(_accesses, parts)) / _accesses(_adam())


@cache
def _adam() -> Rule:
    return Rule.parse("Adam")


def _accesses(rule: Rule) -> float:
    """Return how many accesses to an element take as long as a step."""
    program = Program(rule)
    plan, code = Plan(program), program.code
    count = 2.0 + len(plan.quotient or (plan.result,))  # the parameter, and its update
    count += 2 * len(plan.copies) + _RANDOM * len(code.uniforms)
    for instruction in plan.body:
        count += 1 + sum(not value.is_scalar for value in instruction.inputs)
        if not _is_whole_power(instruction, program.constants):
            count += _SLOW.get(instruction.name, 0)
    return count + (_FLOP * _flops(program) if program.scope == "tensor" else 0)


def _is_whole_power(instruction: Any, constants: Sequence[Any]) -> bool:
    """Return whether an instruction is a power such as a square, which torch multiplies out."""
    if instruction.name != "pow":
        return False
    exponent = instruction.args[1]
    if not isinstance(exponent, int | float):
        exponent = constants[exponent.index]
    return exponent is not None and float(exponent).is_integer()


def _flops(program: Program) -> float:
    """Return the floating-point operations of matrix products per element and step.

    Operators with a parameter `every` decompose matrices at the first of so many steps.
    """
    every = [
        dict(zip((p.name for p in o.parameters), o.values, strict=True)).get("every", 1.0)
        for o in program.rule.operators
    ]
    rare = 1 / min([e for e in every if e > 1], default=1.0)
    like = torch.ones(SHAPE)
    state, counts = program.init(like), []
    for k in (1, 2):
        scalars = program.tensors(program.scalars(k, 2, k), like.dtype)
        noise = [like] * len(program.code.uniforms)
        with FlopCounterMode(display=False, custom_mapping=_DECOMPOSITIONS) as counter:
            _, state = program.apply(like, state, scalars, noise, parameter=like)
        counts.append(counter.get_total_flops() / like.numel())
    return float(rare * counts[0] + (1 - rare) * counts[1])


def _eigh_flops(shape: tuple[int, ...], *_: Any, **__: Any) -> int:
    return _EIGH * 2 * shape[-1] ** 3


_DECOMPOSITIONS = {eigh_operation: _eigh_flops}
