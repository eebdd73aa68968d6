"""Rules as text and as a drawn tree, from operators in prefix order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from optsmith.rules._operator import Operator, format_number

T = TypeVar("T")

# How tightly each construct binds; the parser uses the same table.
SUM, PRODUCT, PREFIX, POWER, ATOM = 1, 2, 3, 4, 5
INFIX = {"add": SUM, "sub": SUM, "mul": PRODUCT, "div": PRODUCT, "pow": POWER}

HOLE = Operator("?", 0, torch=lambda: float("nan"), latex=r"\square", feed="nothing")
"""Stands in an open slot of a partial rule when it is printed."""


def fold(operators: Sequence[Operator], combine: Callable[[Operator, list[T]], T]) -> T:
    """Reduce a complete prefix sequence bottom-up, without recursion.

    Reading prefix order backwards meets every operand before its operator, so one pass with a
    stack does it, however deep the tree.
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
        # An exponent may start with a minus: `a^-b` reads one way only.
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
    """Return ordinary math that parses back to the same operators, with no needless parentheses."""
    return fold(operators, _text)[0]


def _lines(operator: Operator, operands: list[list[str]]) -> list[str]:
    lines = [operator.symbol or repr(operator)]
    for i, operand in enumerate(operands):
        last = i == len(operands) - 1
        lines.append(("└── " if last else "├── ") + operand[0])
        lines += [("    " if last else "│   ") + line for line in operand[1:]]
    return lines


def to_tree(operators: Sequence[Operator]) -> str:
    """Return the tree drawn with lines, one operator a row."""
    lines: list[str] = fold(operators, _lines)
    return "\n".join(lines)
