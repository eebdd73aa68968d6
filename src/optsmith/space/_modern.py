"""The space `modern`: constants, state of any expression, weights, whole tensors and roles.

It contains the optimizers of today as expressions of at most 28 operators: Muon with AdamW for the
other parameters is one of 22. Rules with other constants than those listed belong to it as well.
"""

from __future__ import annotations

from optsmith.rules import Operator, find_operator
from optsmith.space._constraint import Constraint
from optsmith.space._space import Space

MAX_DEPTH = 28

_NUMBERS = {"0.01": 0.5, "0.1": 1.0, "0.5": 0.7, "1": 1.0, "2": 0.7, "3": 0.3}
_DECAYS = ("ld", "cd", "rd", "wc", "wu", "lin", "cos")
_SIGNS = ("sign", "sg", "sm1")

# Probabilities, of all variants of an operator together. Most draws are inputs, so that rules are
# short; most inputs are gradients; and what today's optimizers are made of is drawn most.
_SHARES: dict[str, float] = {
    **{"g": 14.0, "m1": 4.0, "g2": 4.0, "Adam": 1.5, "RMSprop": 0.7, "sg": 0.7, "sm1": 0.7},
    **{"m2": 0.7, "g3": 0.3, "m3": 0.3, "w": 4.0, "k": 0.4, "fan": 0.8, "aspect": 0.5},
    **{"ld": 2.0, "cd": 1.5, "rd": 0.2, "wc": 0.4, "wu": 0.8, "lin": 0.8, "cos": 0.8},
    **_NUMBERS,
    **{"neg": 0.7, "exp": 0.5, "log": 0.3, "sqrt": 2.5, "abs": 0.7, "sign": 2.5, "relu": 0.5},
    **{"clip": 0.7, "drop": 0.3, "ema": 6.0, "mom": 3.0, "prev": 0.5},
    **{"orth": 2.5, "unit": 2.0, "rms": 1.2, "rows": 0.5, "cols": 0.5},
    **{"add": 5.0, "sub": 3.0, "mul": 7.0, "div": 4.0, "pow": 0.7, "mix": 4.0},
    **{"max": 0.5, "min": 0.5, "whiten": 1.0, "whitenr": 0.3, "whitenc": 0.3, "hidden": 2.0},
}

# `clip` bounds what is about 1 in size, such as unit(x); its default, 0.003, fits the paper's Adam.
# lin and cos from 0 to 1 would be ld and cd.
_VARIANTS: dict[str, tuple[tuple[float, ...], ...]] = {
    "ema": ((0.9,), (0.99,), (0.999,)),
    "mom": ((0.9,), (0.95,)),
    "mix": ((0.1,), (0.5,), (0.9,)),
    "clip": ((1.0,),),
    "wu": ((0.1,),),
    "lin": ((0.5, 1.0, 0.0), (0.0, 1.0, 0.1)),
    "cos": ((0.5, 1.0, 0.0), (0.0, 1.0, 0.1)),
}


def _operators() -> list[Operator]:
    return [
        find_operator(name, values) for name in _SHARES for values in _VARIANTS.get(name, ((),))
    ]


def _weights() -> dict[str, float]:
    return {name: share / len(_VARIANTS.get(name, ((),))) for name, share in _SHARES.items()}


# --- constraints ----------------------------------------------------------------------------------

_ONE_NUMBER = (*_NUMBERS, *_DECAYS, "k", "fan", "aspect")
_PER_TENSOR = (*_ONE_NUMBER, "rms")
_NEVER_NEGATIVE = (*_PER_TENSOR, "exp", "sqrt", "abs", "relu", "g2", "m2")
_WHITEN = ("whiten", "whitenr", "whitenc")


def _forbid(
    parents: str | tuple[str | None, ...], children: tuple[str, ...], reason: str, slot: int | None
) -> list[Constraint]:
    names = (parents,) if isinstance(parents, str) else parents
    return [Constraint(parent, frozenset(children), reason, slot) for parent in names]


CONSTRAINTS: tuple[Constraint, ...] = tuple(
    constraint
    for parents, children, reason, slot in (
        # The child cancels the parent.
        ("log", ("exp",), "the logarithm cancels the exponential", None),
        ("exp", ("log",), "the exponential cancels the logarithm: abs is shorter", None),
        ("neg", ("neg",), "the two signs cancel", None),
        ("sign", (*_SIGNS, "clip", "unit"), "redundant under sign", None),
        # The child is redundant under the parent.
        (
            ("log", "sqrt", "abs", "rms"),
            ("abs", "neg"),
            "only the size of the operand counts",
            None,
        ),
        (("abs", "relu"), _NEVER_NEGATIVE, "the operand is not negative", None),
        ("clip", ("clip",), "redundant under clip", None),
        ("drop", ("drop",), "one drop with a higher rate does the same", None),
        ("orth", ("orth",), "the operand is already orthogonal", None),
        ("orth", ("unit",), "orth divides by the norm", None),
        ("unit", ("unit", "rows", "cols", *_SIGNS), "the root mean square is 1 already", None),
        ("unit", ("orth",), "the root mean square of an orthogonal matrix is known", None),
        (("rows", "cols"), _SIGNS, "the root mean squares are 1 already", None),
        ("rows", ("rows", "unit"), "redundant under rows", None),
        ("cols", ("cols", "unit"), "redundant under cols", None),
        (_WHITEN, _WHITEN, "the operand is already white", 0),
        (_WHITEN, (*_WHITEN, "orth"), "the average of white products is the identity", 1),
        ("hidden", ("hidden",), "the role is known below hidden", None),
        ("mul", ("1",), "a factor of 1", None),
        (("div", "pow"), ("1",), "a divisor or exponent of 1", 1),
        # The pair is constant, or the same number for all elements.
        ("sign", (*_PER_TENSOR, "exp"), "the sign of a positive number is 1", None),
        ("sqrt", _SIGNS, "the root is 1", None),
        ("clip", (*_PER_TENSOR, *_SIGNS), "clipped to a constant", None),
        (("exp", "log", "sqrt"), tuple(_NUMBERS), "a number under another name", None),
        ("pow", ("1",), "powers of 1 are 1", 0),
        ("rms", ("unit", "rows", "cols", "orth", *_SIGNS), "the root mean square is known", None),
        (("ema", "mom", "prev"), _ONE_NUMBER, "state of what is known without it", None),
        (("orth", "unit", "rms", "rows", "cols"), _PER_TENSOR, "applied to a number", None),
        (_WHITEN, _PER_TENSOR, "applied to a number", None),
        # At the root: the output does not follow the gradient.
        ((None,), (*_PER_TENSOR, "w"), "does not depend on the gradient's direction", None),
        ((None,), ("exp", "sqrt", "abs", "relu", "g2", "m2"), "does not descend: one sign", None),
    )
    for constraint in _forbid(parents, children, reason, slot)
)
"""The forbidden pairs of operator and operand, with reasons."""

MODERN_SPACE = Space(
    _operators(), CONSTRAINTS, MAX_DEPTH, "modern", weights=_weights(), free_constants=True
)
