"""Parts of rules, and rules with one part replaced or left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from optsmith.rules._constants import constants, with_constants
from optsmith.rules._operator import Operator, Parameter, is_number, number, operators
from optsmith.rules._rule import Rule

_HOISTED = ("clip", "drop", "exp", "log", "orth", "relu", "rows", "cols", "sign", "unit")
"""Functions that are replaced by their operand."""

_AVERAGES = ("ema", "mom")

_SUMS = ("add", "sub")
_FACTORS = ("mul", "whiten", "whitenr", "whitenc", "max", "min", "mix")


@dataclass(frozen=True, slots=True)
class Edit:
    """A rule with one part left out.

    Attributes:
        without: Text of that part.
        rule: The rest.
    """

    without: str
    rule: Rule


def subrule(rule: Rule, at: int) -> Rule:
    """Return the sub-expression that starts at a position."""
    slots, end = 1, at
    while slots:
        slots += rule.operators[end].arity - 1
        end += 1
    return Rule(rule.operators[at:end])


def replaced(rule: Rule, at: int, part: Rule) -> Rule:
    """Return the rule with another sub-expression in place of the one at a position."""
    end = at + subrule(rule, at).length
    return Rule((*rule.operators[:at], *part.operators, *rule.operators[end:]))


def deletions(rule: Rule) -> list[Edit]:
    """Return the rule without each of its terms, factors and functions, one at a time.

    Each term of a sum and each factor of a product is left out, except numbers and what they
    multiply; an exponent is left out; functions such as `sign` are replaced by their operand. What
    remains depends on the gradient. Equal results appear once.
    """
    found: dict[Rule, Edit] = {}
    for at, operator in enumerate(rule.operators):
        for without, part in _shorter(rule, at, operator):
            rest = replaced(rule, at, Rule(part))
            if rest.uses("gradient") and rest not in found:
                found[rest] = Edit(without, rest)
    return list(found.values())


def flattenings(rule: Rule, size: Callable[[Rule], float]) -> list[Edit]:
    """Return the rule with a constant in place of each divisor or average, one at a time.

    A divisor becomes a number, and an average becomes what it averages times a number, so that the
    updates keep their size; so do all that are equal to it. Those inside of divisors are left
    alone.

    Args:
        rule: The rule.
        size: Returns the typical size of an expression.
    """
    found = []
    for whole, kept in dict.fromkeys((w, k) for _, w, k in _flat_parts(rule)):
        factor = size(whole) / (size(kept) or math.nan)
        if 0 < factor < math.inf:
            part = _times(float(f"{factor:.3g}"), kept)
            rest = rule
            while (at := _place(rest, whole)) is not None:
                rest = replaced(rest, at, part)
            found.append(Edit(f"{whole} → {part}", rest))
    return found


def _times(factor: float, rule: Rule) -> Rule:
    return rule if factor == 1 else Rule((operators["mul"], number(factor), *rule.operators))


def _place(rule: Rule, whole: Rule) -> int | None:
    """Return where an expression that `flattenings` replaces stands."""
    return next((at for at, found, _ in _flat_parts(rule) if found == whole), None)


def _flat_parts(rule: Rule) -> Iterator[tuple[int, Rule, Rule]]:
    """Return what `flattenings` may replace: position, expression, and what is kept of it."""
    divisors: set[int] = set()  # positions inside of them
    for at, operator in enumerate(rule.operators):
        if at in divisors:
            continue
        if operator.name == "div":
            first = subrule(rule, at + 1)
            begin = at + 1 + first.length
            divisor = subrule(rule, begin)
            divisors.update(range(begin, begin + divisor.length))
            if divisor.uses("gradient") and first.uses("gradient"):
                yield at, subrule(rule, at), first
        elif operator.name in _AVERAGES:
            kept = subrule(rule, at + 1)
            if kept.uses("gradient"):
                yield at, subrule(rule, at), kept


def _shorter(rule: Rule, at: int, operator: Operator) -> list[tuple[str, tuple[Operator, ...]]]:
    """Return what can be left out of a sub-expression, and what then takes its place."""
    if operator.name in _HOISTED:
        return [(operator.name, subrule(rule, at + 1).operators)]
    if operator.arity < 2:
        return []
    first = subrule(rule, at + 1)
    second = subrule(rule, at + 1 + first.length)
    if operator.name == "pow":
        return [(f"^{second}", first.operators)] if _is_tuned(second) else []
    is_sum = operator.name in _SUMS
    if not is_sum and (operator.name not in _FACTORS or _is_plain(first) or _is_plain(second)):
        return []
    sign = (operators["neg"],) if operator.name == "sub" else ()
    choices = [(first, (*sign, *second.operators)), (second, first.operators)]
    # The terms of a sum inside are left out one by one.
    return [
        (str(part), rest)
        for part, rest in choices
        if (not is_sum or not (part.operators[0].name in _SUMS or _is_plain(part)))
        and (is_sum or Rule(rest).uses("gradient") or not part.uses("gradient"))
    ]


def _is_plain(rule: Rule) -> bool:
    return rule.length == 1 and is_number(rule.operators[0])


def _is_tuned(exponent: Rule) -> bool:
    """Return whether an exponent is a constant; whole exponents are part of the structure."""
    return _is_plain(exponent) and not float(exponent.operators[0].torch()).is_integer()


def rounded(rule: Rule, digits: int) -> Rule:
    """Return the rule with its constants rounded; averages by their distance from 1."""
    return with_constants(rule, [_rounded(c.value, c.parameter, digits) for c in constants(rule)])


def _rounded(value: float, parameter: Parameter, digits: int) -> float:
    if parameter.scale == "complement":
        near = 1 - float(f"{1 - value:.{digits}g}")
        near = float(f"{near:.12g}")
    else:
        near = float(f"{value:.{digits}g}")
    return near if parameter.allows(near) else value
