"""Formats operators in prefix order as text and as a tree drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from optsmith.rules._operator import Operator, format_number

T = TypeVar("T")

# Precedence of each construct; the parser uses the same table.
SUM, PRODUCT, PREFIX, POWER, ATOM = 1, 2, 3, 4, 5
INFIX = {"add": SUM, "sub": SUM, "mul": PRODUCT, "div": PRODUCT, "pow": POWER}

HOLE = Operator("?", 0, torch=lambda: float("nan"), latex=r"\square", feed="nothing")
"""Placeholder for an open slot when a partial rule is printed."""


def fold(operators: Sequence[Operator], combine: Callable[[Operator, list[T]], T]) -> T:
    """Return the value of a complete prefix sequence, computed bottom-up without recursion.

    In reversed prefix order, operands come before their operator, so one pass with a stack is
    enough for trees of any depth.
    """
    stack: list[T] = []
    for operator in reversed(operators):
        operands = [stack.pop() for _ in range(operator.arity)]
        stack.append(combine(operator, operands))
    return stack[0]


def _enclose(text: str, binds: int, at_least: int) -> str:
    return text if binds >= at_least else f"({text})"


def _text(operator: Operator, operands: list[tuple[str, int]]) -> tuple[str, int]:
    name = operator.name
    if name == "neg":
        return f"-{_enclose(*operands[0], PREFIX)}", PREFIX
    if name == "pow":
        base, exponent = operands
        # An exponent may start with a minus: `a^-b` is unambiguous.
        return f"{_enclose(*base, ATOM)}^{_enclose(*exponent, PREFIX)}", POWER
    if name in INFIX:
        binds = INFIX[name]
        left, right = operands
        sign = f" {operator.symbol} " if binds == SUM else operator.symbol
        return f"{_enclose(*left, binds)}{sign}{_enclose(*right, binds + 1)}", binds
    if name == "abs":
        return f"|{operands[0][0]}|", ATOM
    arguments = [f"|{text}|" if operator.bars else text for text, _ in operands]
    if not operator.is_default:
        arguments += map(format_number, operator.values)
    return (f"{name}({', '.join(arguments)})" if arguments else name), ATOM


def to_text(operators: Sequence[Operator]) -> str:
    """Return text that parses back to the same operators, without redundant parentheses."""
    return fold(operators, _text)[0]


def _lines(operator: Operator, operands: list[list[str]]) -> list[str]:
    lines = [operator.symbol or repr(operator)]
    for i, operand in enumerate(operands):
        last = i == len(operands) - 1
        lines.append(("└── " if last else "├── ") + operand[0])
        lines += [("    " if last else "│   ") + line for line in operand[1:]]
    return lines


def to_tree(operators: Sequence[Operator]) -> str:
    """Return the tree drawn with box characters, one operator per line."""
    lines: list[str] = fold(operators, _lines)
    return "\n".join(lines)
