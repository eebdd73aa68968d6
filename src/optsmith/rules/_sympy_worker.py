"""Main program of the SymPy process: reads rules as JSON lines, writes simplified ones."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable
from typing import Any

import sympy

from optsmith.rules import BY_ROLE, Operator, Rule, find_operator, number, operators

MEMORY = 2 << 30

Prefix = tuple[Operator, ...]


class NoRuleError(Exception):
    """A SymPy expression that cannot be written as a rule."""


def to_sympy(request: list[list[Any]]) -> tuple[sympy.Expr, dict[str, Operator]]:
    """Return the SymPy expression, and the operators by their opaque names in it."""
    opaque: dict[str, Operator] = {}
    stack: list[sympy.Expr] = []
    for at, (name, values, arity, is_random) in reversed(list(enumerate(request))):
        operands = [stack.pop() for _ in range(arity)]
        try:
            operator = find_operator(name, tuple(values))
        except Exception:  # an operator of the parent process that no imported module declares
            operator = Operator(name, arity, torch=_never, feed="operands" if arity else "gradient")
        if name == BY_ROLE and operands[0] == operands[1]:
            stack.append(operands[0])
            continue
        transparent = operator.sympy is not None and (arity or operator.is_default)
        if transparent and not is_random:
            stack.append(operator.sympy(sympy, *operands, *operator.values))  # type: ignore[misc]
            continue
        # Random operators get one name per use, because two uses are different random values.
        label = f"{operator!r}#{at}" if is_random else repr(operator)
        opaque[label] = operator
        symbol = sympy.Function(label, real=True)(*operands) if arity else None
        stack.append(symbol if arity else sympy.Symbol(label, real=True))
    return stack[0], opaque


def _never(*_: object) -> None:
    raise NotImplementedError


class Writer:
    """Converts an expression back to operators, in the customary order."""

    def __init__(self, opaque: dict[str, Operator]) -> None:
        self.opaque = opaque
        self.used: list[str] = []

    def write(self, e: sympy.Expr) -> Prefix:
        """Return the operators of `e` in prefix order."""
        if e.is_Number or e.is_NumberSymbol:
            return self._number(e)
        if e.is_Symbol:
            return (self._named(e.name),)
        if e.is_Add:
            return self._sum(e)
        if e.is_Mul:
            return self._product(e)
        if e.is_Pow:
            return self._power(e)
        if isinstance(e, sympy.exp):
            return (operators["exp"], *self.write(e.args[0]))
        if isinstance(e, sympy.log):
            return (operators["log"], *self._inside_bars(e.args[0]))
        for name, kind in (("sign", sympy.sign), ("abs", sympy.Abs)):
            if isinstance(e, kind):
                return (operators[name], *self.write(e.args[0]))
        return (self._named(type(e).__name__), *(o for arg in e.args for o in self.write(arg)))

    def _named(self, label: str) -> Operator:
        if label in self.opaque:
            if "#" in label and label in self.used:
                raise NoRuleError("it uses one random value twice")
            self.used.append(label)
            return self.opaque[label]
        if label not in operators:
            raise NoRuleError(f"it contains {label}")
        return operators[label]

    def _number(self, e: sympy.Expr) -> Prefix:
        if e.is_Rational and e.q != 1 and (e.q == 2 or not _ends(e)):
            return self._product(e)
        value = float(e)
        sign = (operators["neg"],) if value < 0 else ()
        return (*sign, number(abs(value)))

    def _inside_bars(self, e: sympy.Expr) -> Prefix:
        return self.write(e.args[0] if isinstance(e, sympy.Abs) else e)

    def _join(self, name: str, parts: Iterable[Prefix]) -> Prefix:
        first, *rest = parts
        for part in rest:
            first = (operators[name], *first, *part)
        return first

    def _sum(self, e: sympy.Expr) -> Prefix:
        terms = e.as_ordered_terms()
        plus = [self.write(t) for t in terms if not t.could_extract_minus_sign()]
        minus = [self.write(-t) for t in terms if t.could_extract_minus_sign()]
        start = [self._join("add", plus)] if plus else [(operators["neg"], *minus.pop(0))]
        return self._join("sub", [*start, *minus])

    def _product(self, e: sympy.Expr) -> Prefix:
        number_part, rest = e.as_coeff_Mul()
        if number_part < 0:
            return (operators["neg"], *self.write(-e))
        above: list[Prefix] = []
        below: list[Prefix] = []
        if _is_decimal(number_part) and rest != 1:
            above.append((number(float(number_part)),))
            number_part = sympy.Integer(1)
        if number_part.p != 1 or rest == 1:
            above.append(self.write(sympy.Integer(number_part.p)))
        if number_part.q != 1:
            below.append(self.write(sympy.Integer(number_part.q)))
        for factor in rest.as_ordered_factors() if rest != 1 else ():
            base, exponent = factor.as_base_exp()
            if exponent.is_Number and exponent < 0 and not isinstance(factor, sympy.exp):
                below.append(self.write(base**-exponent))
            else:
                above.append(self.write(factor))
        top = self._join("mul", above or [(number(1.0),)])
        return (operators["div"], *top, *self._join("mul", below)) if below else top

    def _power(self, e: sympy.Expr) -> Prefix:
        base, exponent = e.args
        if base is sympy.E:
            return (operators["exp"], *self.write(exponent))
        if exponent.is_Number and exponent < 0:
            return (
                self._product(sympy.Mul(1, e, evaluate=False))
                if exponent != -1
                else (operators["div"], number(1.0), *self.write(base))
            )
        if exponent == sympy.Rational(1, 2) and base.is_nonnegative:
            return (operators["sqrt"], *self._inside_bars(base))
        if base == sympy.Symbol("g", real=True) and exponent in (2, 3):
            return (operators[f"g{exponent}"],)
        return (operators["pow"], *self.write(base), *self.write(exponent))


def _is_decimal(e: sympy.Rational) -> bool:
    """Return whether a fraction is shorter as a decimal: 3/100 and 1/5, but not 1/4."""
    return bool(e.q != 1 and _ends(e) and (e.p != 1 or e.q % 5 == 0))


def _ends(e: sympy.Rational) -> bool:
    """Return whether a fraction has few decimals, or is longer as a quotient."""
    return bool(10**6 % e.q == 0 or (10**15 % e.q == 0 and len(f"{float(e):.15g}") <= len(str(e))))


def _spread(e: sympy.Expr) -> sympy.Expr:
    """Return an expression whose sums have no common factor that is a fraction.

    SymPy extracts such factors: 3*(2*x + 5*y)/1000 is 0.006*x + 0.015*y.
    """
    return e.replace(
        lambda part: part.is_Mul and part.args[0].is_Rational and part.args[0].q != 1,
        _distributed,
    )


def _distributed(product: sympy.Mul) -> sympy.Expr:
    """Return a product whose coefficient is part of its sum, if it is a number times one sum."""
    coefficient, rest = product.as_coeff_Mul()
    return sympy.Add(*(coefficient * term for term in rest.args)) if rest.is_Add else product


def simplest(request: list[list[Any]]) -> Rule:
    """Return the shortest of the forms that SymPy returns."""
    expression, opaque = to_sympy(request)
    forms = {expression, sympy.simplify(expression), sympy.factor_terms(expression)}
    forms |= {_spread(form) for form in forms}
    rules, reasons = [], []
    for form in forms:
        try:
            rules.append(Rule(Writer(opaque).write(form)))
        except NoRuleError as reason:
            reasons.append(str(reason))
    if not rules:
        raise NoRuleError(f"SymPy's result cannot be written as a rule: {reasons[0]}")
    return min(rules, key=lambda rule: (rule.length, str(rule)))


def answer(line: str) -> dict[str, Any]:
    """Return the answer to one request."""
    request = json.loads(line)
    try:
        sys.path[:] = request["path"]
        for module in request["modules"]:
            importlib.import_module(module)
        rule = simplest(request["operators"])
    except Exception as error:  # the parent process always gets an answer
        return {"error": f"{type(error).__name__}: {error}".replace("\n", " ")[:200]}
    return {"operators": [[o.name, o.values] for o in rule.operators]}


def main() -> None:
    """Answer requests until the end of standard input."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError, OSError):
        pass  # no memory limit on this system; the timeout still applies
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(line)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
