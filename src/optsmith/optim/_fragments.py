"""Pieces of Python source: tables of operators and methods, literals and parentheses."""

from __future__ import annotations

from optsmith.rules import ATOM, POWER, PREFIX, PRODUCT, SUM

COMPARE = 0
"""Precedence of comparisons."""
INFIX = {
    "add": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "div": ("/", PRODUCT),
    "remainder": ("%", PRODUCT),
    "pow": ("**", POWER),
}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
TAKES_TENSORS = {"maximum", "minimum", "fmax", "fmin", "lerp", "atan2", "hypot"}
"""Methods whose first argument must be a tensor."""
OF_ITS_SHAPE = {"orth", "unit", "rows", "cols", "whiten", "whitenr", "whitenc"}
"""Operators on whole tensors whose result is never one number."""
RESERVED = {"g", "w", "tau", "k", "torch", "math", "state", "scalars", "uniforms", "like", "update"}
"""Names that variables must not have."""

Fragment = tuple[str, int]
"""Source of an expression, and its precedence."""


def literal(number: float) -> Fragment:
    """Return a number that reads back as the same number."""
    text = repr(int(number)) if number.is_integer() and abs(number) < 1e6 else repr(number)
    if text.lstrip("-") in ("inf", "nan"):
        return f'float("{text}")', ATOM
    return text, PREFIX if text.startswith("-") else ATOM


def as_tensor(fragment: Fragment, is_scalar: bool) -> Fragment:
    """Return a number as a tensor: of a step's scalars, or like the gradient."""
    if is_scalar:
        return f"torch.tensor({fragment[0]}, dtype=torch.float64)", ATOM
    return f"g.new_tensor({fragment[0]})", ATOM


def enclosed(fragment: Fragment, at_least: int) -> str:
    """Return an expression, in parentheses if it binds less than required."""
    text, binds = fragment
    return text if binds >= at_least else f"({text})"


def assigned(names: list[str]) -> str:
    """Return the left side of an assignment that unpacks a tuple."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)
