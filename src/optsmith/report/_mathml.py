"""Rules as MathML, which browsers set without a font or a script.

The built-in operators are set as their LaTeX is; other operators are set as their name, with the
operands in parentheses.
"""

from __future__ import annotations

from typing import NamedTuple

from optsmith.report._html import Content, Markup, markup, tag
from optsmith.rules import (
    ATOM,
    INFIX,
    POWER,
    PREFIX,
    PRODUCT,
    Operator,
    Rule,
    fold,
    format_number,
)

SIGNS = {"add": "+", "sub": "\N{MINUS SIGN}", "neg": "\N{MINUS SIGN}", "times": "⋅"}


class _Math(NamedTuple):
    """A sub-rule: its MathML, its precedence, and the sign or digit that it begins with."""

    math: Markup
    binds: int = ATOM
    first: str = ""


def _row(*parts: Content) -> Markup:
    return tag("mrow", parts)


def _fenced(inside: Content, opening: str = "(", closing: str = ")") -> Markup:
    ends = ((opening, "prefix"), (closing, "postfix"))
    before, after = (tag("mo", text, form=form, stretchy="true") for text, form in ends)
    return _row(before, inside, after)


def _list(parts: list[Markup]) -> list[Markup]:
    """Return parts with commas between them."""
    return [piece for part in parts for piece in (tag("mo", ","), part)][1:]


def _applied(name: str, operands: list[Markup]) -> Markup:
    """Return a function with its operands in parentheses, or the name of an input."""
    if not operands:
        return tag("mi", name)
    application = tag("mo", "\N{FUNCTION APPLICATION}")
    return markup([tag("mi", name), application, _fenced(_list(operands))])


def _number(text: str) -> _Math:
    """Return a number; scientific notation becomes a product with a power of ten."""
    mantissa, e, exponent = text.partition("e")
    sign = tag("mo", SIGNS["neg"]) if text.startswith("-") else None
    number = markup([sign, tag("mn", mantissa.removeprefix("-"))])
    if not e:
        return _Math(number, ATOM, text[0])
    power = tag("msup", tag("mn", "10"), _row(_number(str(int(exponent))).math))
    return _Math(markup([number, tag("mo", SIGNS["times"]), power]), PRODUCT, text[0])


_GRADIENT, _MOMENTUM = tag("mi", "g"), tag("msub", tag("mi", "m"), tag("mn", "1"))
_INPUTS = {
    "g2": _Math(tag("msup", _GRADIENT, tag("mn", "2")), POWER),
    "g3": _Math(tag("msup", _GRADIENT, tag("mn", "3")), POWER),
    "m1": _Math(_MOMENTUM),
    "m2": _Math(tag("msub", tag("mi", "m"), tag("mn", "2"))),
    "m3": _Math(tag("msub", tag("mi", "m"), tag("mn", "3"))),
    "sg": _Math(_applied("sign", [_GRADIENT])),
    "sm1": _Math(_applied("sign", [_MOMENTUM])),
}


def _enclose(part: _Math, at_least: int) -> _Math:
    return part if part.binds >= at_least else _Math(_fenced(part.math))


def _infix(name: str, left: _Math, right: _Math) -> _Math:
    binds = INFIX[name]
    # As in LaTeX: the right operand of a minus is enclosed, and so is a leading minus.
    second = _enclose(right, POWER if right.first == "-" else binds + (name == "sub"))
    if name == "mul" and not second.first.isdigit():
        sign = tag("mspace", width="0.167em")
    else:  # without a dot, two adjacent numbers would read as one
        sign = tag("mo", SIGNS.get(name, SIGNS["times"]))
    first = _enclose(left, binds)
    return _Math(markup([first.math, sign, second.math]), binds, first.first)


def _function(operator: Operator, operands: list[Markup]) -> _Math:
    """Return an input, or a function that is not arithmetic."""
    name = operator.name
    if name in _INPUTS:
        return _INPUTS[name]
    bars = _fenced(operands, "|", "|")
    if name == "exp":
        return _Math(tag("msup", tag("mi", "e"), _row(operands)), POWER)
    if name == "log":
        return _Math(markup([tag("mi", name), tag("mspace", width="0.167em"), bars]), POWER)
    if name in ("abs", "sqrt"):
        return _Math(bars if name == "abs" else tag("msqrt", bars))
    return _Math(_applied(name, operands))


def _combine(operator: Operator, operands: list[_Math]) -> _Math:
    name = operator.name
    if name == "neg":
        inside = _enclose(operands[0], PREFIX).math
        return _Math(markup([tag("mo", SIGNS[name]), inside]), PREFIX, "-")
    if name == "pow":
        base = _enclose(operands[0], ATOM)
        return _Math(tag("msup", _row(base.math), _row(operands[1].math)), POWER, base.first)
    if name == "div":
        return _Math(tag("mfrac", [_row(operand.math) for operand in operands]), PRODUCT)
    if name in INFIX:
        return _infix(name, *operands)
    if name[0].isdigit():
        return _number(name)
    function = _function(operator, [operand.math for operand in operands])
    if operator.is_default:
        return function
    values = [_number(format_number(value)).math for value in operator.values]
    return function._replace(math=tag("msub", _row(function.math), _row(_list(values))))


def to_mathml(rule: Rule) -> Markup:
    """Return a rule as a formula."""
    return tag("math", _row(fold(rule.operators, _combine).math), display="block")
