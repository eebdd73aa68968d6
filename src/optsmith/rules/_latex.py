"""Formats rules as LaTeX math, without redundant parentheses."""

from __future__ import annotations

from collections.abc import Sequence

from optsmith.rules._operator import Operator, format_number
from optsmith.rules._print import ATOM, INFIX, POWER, PREFIX, PRODUCT, fold

Fragment = tuple[str, int]
"""LaTeX of a sub-rule, and its precedence."""


def _enclose(fragment: Fragment, at_least: int) -> str:
    text, binds = fragment
    return text if binds >= at_least else rf"\left({text}\right)"


def _infix(operator: Operator, left: Fragment, right: Fragment) -> Fragment:
    binds = INFIX[operator.name]
    # Sums and products are associative, so only the right operand of a minus needs parentheses; a
    # leading minus on the right is enclosed too, to avoid two adjacent signs.
    needs = POWER if right[0].startswith("-") else binds + (operator.name == "sub")
    second = _enclose(right, needs)
    # Without a dot, two adjacent numbers would read as one.
    starts_with_digit = second.lstrip("{")[:1].isdigit()
    template = r"%s \cdot %s" if binds == PRODUCT and starts_with_digit else operator.latex
    return template % (_enclose(left, binds), second), binds


def _number(name: str) -> Fragment:
    mantissa, e, exponent = name.partition("e")
    return (rf"{mantissa} \cdot 10^{{{int(exponent)}}}", PRODUCT) if e else (mantissa, ATOM)


def _template(operator: Operator) -> str:
    name = operator.name.replace("_", r"\_")
    slots = rf"\left({', '.join(['%s'] * operator.arity)}\right)" if operator.arity else ""
    return rf"\operatorname{{{name}}}{slots}"


def _fragment(operator: Operator, operands: list[Fragment]) -> Fragment:
    name = operator.name
    if name == "neg":
        return operator.latex % _enclose(operands[0], PREFIX), PREFIX
    if name == "pow":
        return operator.latex % (_enclose(operands[0], ATOM), operands[1][0]), POWER
    if name == "div":
        return operator.latex % (operands[0][0], operands[1][0]), PRODUCT
    if name in INFIX:
        return _infix(operator, operands[0], operands[1])
    if name[0].isdigit():
        return _number(name)
    template = operator.latex or _template(operator)
    text = template % tuple(text for text, _ in operands)
    if not operator.is_default:
        text = rf"{{{text}}}_{{{', '.join(map(format_number, operator.values))}}}"
    # g^{2}, e^{x} and \log|x| are parenthesised when raised to a power.
    return text, POWER if "^" in template or template.startswith(r"\log") else ATOM


def to_latex(operators: Sequence[Operator]) -> str:
    """Return the rule as LaTeX math."""
    return fold(operators, _fragment)[0]
