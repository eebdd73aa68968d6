"""The structure of a rule: the rule with its numbers left out, in a canonical order.

Rules of one structure differ only in their constants: coefficients, exponents and the parameters
of operators. Signs of coefficients belong to the structure.
"""

from __future__ import annotations

from optsmith.rules._operator import Operator
from optsmith.rules._rule import Rule

Terms = dict[tuple[str, ...], float]
"""A sum: the coefficient of each product, which is given by its sorted factors."""

_SIGNS = {"sg": "g", "sm1": "m1"}  # inputs that are signs of other inputs


def structure(rule: Rule) -> str:
    """Return the structure of a rule as text.

    Operands of sums and products are sorted, equal terms are added, and products with a single
    term are expanded, so that `ld*(m1 + 2*g)` and `g*ld + 0.5*m1*ld` have the same structure. Two
    sums are not multiplied out, and quotients are not cancelled. Variants of one operator in a rule
    stay different, as in `m1 + m1(0.5)`.
    """
    variants: dict[str, set[tuple[float, ...]]] = {}
    for operator in rule.operators:
        variants.setdefault(_SIGNS.get(operator.name, operator.name), set()).add(operator.values)

    def terms(operator: Operator, operands: list[Terms]) -> Terms:
        name = _SIGNS.get(operator.name, operator.name)
        mark = "'" * sorted(variants[name]).index(operator.values)
        return _terms(operator, operands, name + mark)

    return _text(rule.fold(terms))


def _text(terms: Terms) -> str:
    products = {"*".join(factors) or "1": coefficient for factors, coefficient in terms.items()}
    signed = [f"{'+' if c > 0 else '-'}{product}" for product, c in products.items() if c]
    return "".join(sorted(signed)) or "0"


def _terms(operator: Operator, operands: list[Terms], name: str) -> Terms:
    if operator.feed == "nothing" and not operator.parameters:
        return {(): float(operator.torch())}
    if name in ("add", "sub"):
        return _sum(operands[0], _scaled(operands[1], 1.0 if name == "add" else -1.0))
    if name == "neg":
        return _scaled(operands[0], -1.0)
    if name == "mul":
        return _product(*operands)
    if name == "div":
        return _product(operands[0], _inverse(operands[1]))
    if operator.name in _SIGNS:
        return {(f"sign(+{name})",): 1.0}
    arguments = ", ".join(map(_text, operands))
    return {(f"{name}({arguments})" if operands else name,): 1.0}


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
