"""The structure of a rule: the rule with its numbers left out, in a canonical order.

Rules of one structure differ only in their constants: coefficients, exponents and the parameters
of operators. Signs of coefficients belong to the structure.
"""

from __future__ import annotations

from functools import partial

from optsmith.rules._operator import Operator
from optsmith.rules._rule import Rule

Terms = dict[tuple[str, ...], float]
"""A sum: the coefficient of each product, which is given by its sorted factors."""

_SIGNS = {"sg": "g", "sm1": "m1"}  # inputs that are signs of other inputs
_POWERS = ("g2", "g3")  # inputs that are powers of the gradient
_EITHER_ORDER = ("max", "min")


def structure(rule: Rule) -> str:
    """Return the structure of a rule as text.

    Operands of sums and products are sorted, equal terms are added, and products with a single
    term are expanded, so that `ld*(m1 + 2*g)` and `g*ld + 0.5*m1*ld` have the same structure. Two
    sums are not multiplied out, and quotients are not cancelled. `mix(x, y)` is a sum, and `mom(g)`
    is `m1`. Variants of one operator with the same operands stay different, as in `m1 + m1(0.5)`;
    parameters that are not tuned belong to the structure.
    """
    variants: dict[str, set[tuple[float, ...]]] = {}
    rule.fold(partial(_pair, variants, collect=True))
    return _text(rule.fold(partial(_pair, variants, collect=False))[0])


def _pair(
    variants: dict[str, set[tuple[float, ...]]],
    operator: Operator,
    operands: list[tuple[Terms, Terms]],
    collect: bool,
) -> tuple[Terms, Terms]:
    """Return the terms of a sub-rule, with and without marks of variants.

    Args:
        variants: The parameter values of operators, by their text without marks.
        operator: The operator.
        operands: The terms of its operands.
        collect: Whether to fill `variants`, or to mark by them.
    """
    marked, plain = [one for one, _ in operands], [one for _, one in operands]
    name = _name(operator, plain)
    text = _call(name, plain)
    values = variants.setdefault(text, set())
    if collect:
        values.add(operator.values)
    mark = "'" * sorted(values).index(operator.values)
    return _terms(operator, marked, name + mark), _terms(operator, plain, name)


def _name(operator: Operator, operands: list[Terms]) -> str:
    """Return the name of an operator, with the parameter values that are not tuned."""
    if operator.name == "mom" and operands == [{("g",): 1.0}]:
        return "m1"
    pairs = zip(operator.parameters, operator.values, strict=True)
    fixed = [f"{p.name}={value:g}" for p, value in pairs if not p.tuned]
    return " ".join([_SIGNS.get(operator.name, operator.name), *fixed])


def _call(name: str, operands: list[Terms]) -> str:
    base = name.rstrip("'")
    if base == "m1":
        return name
    texts = list(map(_text, operands))
    if base in _EITHER_ORDER:
        texts.sort()
    return f"{name}({', '.join(texts)})" if operands else name


def _text(terms: Terms) -> str:
    products = {"*".join(factors) or "1": coefficient for factors, coefficient in terms.items()}
    signed = [f"{'+' if c > 0 else '-'}{product}" for product, c in products.items() if c]
    return "".join(sorted(signed)) or "0"


def _terms(operator: Operator, operands: list[Terms], name: str) -> Terms:
    if operator.feed == "nothing" and not operator.parameters:
        return {(): float(operator.torch())}
    if operator.name in ("add", "sub"):
        return _sum(operands[0], _scaled(operands[1], 1.0 if operator.name == "add" else -1.0))
    if operator.name == "mix":
        (c,) = operator.values
        return _sum(_scaled(operands[0], c), _scaled(operands[1], 1 - c))
    if operator.name == "neg":
        return _scaled(operands[0], -1.0)
    if operator.name == "mul":
        return _product(*operands)
    if operator.name == "div":
        return _product(operands[0], _inverse(operands[1]))
    if operator.name in _POWERS:
        return {("pow(+g, +1)",): 1.0}
    if operator.name in _SIGNS:
        return {(f"sign(+{name})",): 1.0}
    return {(_call(name, operands),): 1.0}


def _sum(one: Terms, other: Terms) -> Terms:
    added = {factors: one.get(factors, 0.0) + other.get(factors, 0.0) for factors in one | other}
    return {factors: coefficient for factors, coefficient in added.items() if coefficient}


def _scaled(terms: Terms, factor: float) -> Terms:
    return {factors: factor * coefficient for factors, coefficient in terms.items()}


def _product(one: Terms, other: Terms) -> Terms:
    if len(one) > 1 and len(other) > 1:
        one = _whole(one)
        other = _whole(other)
    return {
        tuple(sorted((*left, *right))): a * b
        for left, a in one.items()
        for right, b in other.items()
    }


def _inverse(terms: Terms) -> Terms:
    if len(terms) != 1:
        terms = _whole(terms)
    ((factors, coefficient),) = terms.items()
    inverse = tuple(sorted(f[2:] if f.startswith("1/") else f"1/{f}" for f in factors))
    return {inverse: 1.0 / coefficient if coefficient else 1.0}


def _whole(terms: Terms) -> Terms:
    """Return a sum as one factor."""
    return {(f"({_text(terms)})",): 1.0}
