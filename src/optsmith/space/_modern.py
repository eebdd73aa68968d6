"""The space `modern`: constants, state of any expression, weights, whole tensors and roles.

It contains the optimizers of today as expressions of at most 34 operators, with their schedules:
Muon with AdamW for the other parameters has 22. Rules with other constants than those listed belong
to it as well.
"""

from __future__ import annotations

from optsmith.rules import Operator, find_operator
from optsmith.space._constraint import Constraint
from optsmith.space._space import Space

MAX_DEPTH = 34

_NUMBERS = ("0.01", "0.1", "0.5", "1", "2", "3")
_DECAYS = ("ld", "cd", "rd", "wc", "wu", "lin", "cos")
_GRADIENT_SIGNS = ("sg", "sm1")
_SIGNS = ("sign", *_GRADIENT_SIGNS)  # sign(x) may be a mask: 0 for a part of the elements

# Weights, of all variants of an operator together. Most draws are inputs, so that rules are short;
# most inputs are gradients; and what today's optimizers are made of is drawn most.
_BY_SHARE: dict[float, str] = {
    14.0: "g",
    7.0: "mul",
    6.0: "ema",
    5.0: "add",
    4.0: "m1 g2 w div mix",
    3.0: "sub mom",
    2.5: "sqrt sign orth",
    2.0: "ld unit hidden",
    1.5: "Adam cd",
    1.0: "0.1 1 rms",
    0.7: "RMSprop sg sm1 m2 0.5 2 wu lin cos fan neg abs clip pow whiten",
    0.5: "0.01 aspect exp relu prev rows cols max min",
    0.3: "g3 m3 k 3 wc log drop whitenr whitenc",
    0.2: "rd",
}
_SHARES = {name: share for share, names in _BY_SHARE.items() for name in names.split()}

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
        # The child is redundant under the parent.
        ("sign", (*_SIGNS, "clip", "unit"), "redundant under sign", None),
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
        (
            "unit",
            ("unit", "rows", "cols", *_GRADIENT_SIGNS),
            "the root mean square is 1 already",
            None,
        ),
        ("unit", ("orth",), "the root mean square of an orthogonal matrix is known", None),
        (("rows", "cols"), _GRADIENT_SIGNS, "the root mean squares are 1 already", None),
        ("rows", ("rows", "unit"), "redundant under rows", None),
        ("cols", ("cols", "unit"), "redundant under cols", None),
        (_WHITEN, _WHITEN, "the operand is already white", 0),
        (_WHITEN, (*_WHITEN, "orth"), "the average of white products is the identity", 1),
        ("hidden", ("hidden",), "the role is known below hidden", None),
        ("mul", ("1",), "a factor of 1", None),
        (("div", "pow"), ("1",), "a divisor or exponent of 1", 1),
        # The pair is constant, or the same number for all elements.
        ("sign", (*_ONE_NUMBER, "exp"), "the sign of a positive number is 1", None),
        ("sqrt", _SIGNS, "the root is 1", None),
        ("clip", (*_ONE_NUMBER, *_SIGNS), "clipped to a constant", None),
        (("exp", "log", "sqrt"), _NUMBERS, "a number under another name", None),
        ("pow", ("1",), "powers of 1 are 1", 0),
        (
            "rms",
            ("unit", "rows", "cols", "orth", *_GRADIENT_SIGNS),
            "the root mean square is known",
            None,
        ),
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
