"""Operators of the space `modern`: constants, state of any expression, weights, whole tensors."""

from __future__ import annotations

from typing import Any

from optsmith.rules import _modern_functions as functions
from optsmith.rules._catalogue import MOMENTUM
from optsmith.rules._operator import Operator, Parameter, State, operators
from optsmith.rules._roles import BY_ROLE


def _call(name: str, operands: int = 1) -> str:
    """Return the LaTeX template of a function."""
    return rf"\operatorname{{{name}}}\left({', '.join(['%s'] * operands)}\right)"


def _real(name: str, **assumptions: bool) -> Any:
    """Return the SymPy function of an input: it returns the symbol `name`."""
    return lambda sp, *values: sp.Symbol(name, **(assumptions or {"real": True}))


def _add(name: str, arity: int, torch: Any, words: str, **more: Any) -> Operator:
    more.setdefault("latex", _call(name, arity) if arity else rf"\mathrm{{{name}}}")
    return operators.register(Operator(name, arity, torch, words=words, **more))


# --- inputs --------------------------------------------------------------------------------------

_add("w", 0, functions.itself, "the parameter", feed="parameter", latex="w", sympy=_real("w"))
_add(
    "k",
    0,
    functions.itself,
    "the number of updates so far, from 1",
    feed="count",
    latex="k",
    sympy=_real("k", positive=True),
)
_add(
    "fan",
    0,
    functions.longer_side,
    "the root of the longer side of the matrix: Muon's factor for the size of Adam's updates",
    feed="parameter",
    scope="tensor",
    sympy=_real("fan", positive=True),
)
_add(
    "aspect",
    0,
    functions.tallness,
    "the root of rows per column of the matrix, at least 1: Muon's original factor",
    feed="parameter",
    scope="tensor",
    sympy=_real("aspect", positive=True),
)

_SHARE = Parameter("share", 0.1, 0.0, 1.0, closed=True)
_FALL = (
    Parameter("start", 0.0, 0.0, 1.0, closed=True),
    Parameter("end", 1.0, 0.0, 1.0, closed=True),
    Parameter("low", 0.0, 0.0, 1.0, closed=True),
)
_TIME: dict[str, Any] = {"feed": "time"}
_add(
    "wu",
    0,
    functions.warm_up,
    "warm-up from 0 to 1 over the first share of the run",
    parameters=(_SHARE,),
    sympy=_real("wu", positive=True),
    **_TIME,
)
_add(
    "lin",
    0,
    functions.linear_fall,
    "1 until the share `start` of the run, then a linear fall to `low` at `end`",
    parameters=_FALL,
    sympy=_real("lin", nonnegative=True),
    **_TIME,
)
_add(
    "cos",
    0,
    functions.cosine_fall,
    "1 until the share `start` of the run, then a cosine fall to `low` at `end`",
    parameters=_FALL,
    sympy=_real("cos", nonnegative=True),
    **_TIME,
)

# --- element by element --------------------------------------------------------------------------

_add(
    "mix",
    2,
    functions.mix,
    "c*x + (1 - c)*y",
    parameters=(Parameter("c", 0.5, 0.0, 1.0, closed=True),),
)
_add("relu", 1, functions.positive, "the positive part")
_add("max", 2, functions.larger, "the larger of two", latex=r"\max\left(%s, %s\right)")
_add("min", 2, functions.smaller, "the smaller of two", latex=r"\min\left(%s, %s\right)")

# --- state of any expression ---------------------------------------------------------------------

_add(
    "ema",
    1,
    functions.corrected,
    "moving average with bias correction, as in Adam",
    parameters=(Parameter("beta", 0.9, 0.0, 1.0, scale="complement"),),
    state=State(("average",), functions.average, scan=functions.scan_average),
)
_add(
    "mom",
    1,
    functions.momentum,
    "momentum beta*m + x, as in SGD; with beta = 1 the sum of all steps, as in Adagrad",
    parameters=(Parameter("beta", 0.9, 0.0, 1.0, scale="complement", closed=True),),
    state=MOMENTUM,
)
_add(
    "prev",
    1,
    functions.previous,
    "the value one step ago; at the first step, the value itself",
    state=State(("previous",), functions.hold, reads="before", scan=functions.scan_previous),
)

# --- whole tensors -------------------------------------------------------------------------------

_TENSOR: dict[str, Any] = {"scope": "tensor"}
_add(
    "orth",
    1,
    functions.orthogonal,
    "the nearest matrix with singular values of about 1 (Newton-Schulz), as in Muon",
    **_TENSOR,
)
_add("unit", 1, functions.unit, "x over its root mean square", **_TENSOR)
_add(
    "rms",
    1,
    functions.root_mean_square,
    "the root mean square, one number per tensor: trust ratios, as in LAMB and LARS",
    **_TENSOR,
)
_add("rows", 1, functions.unit_rows, "each row over its root mean square", **_TENSOR)
_add("cols", 1, functions.unit_columns, "each column over its root mean square", **_TENSOR)

_WHITEN = (
    Parameter("beta", 0.95, 0.0, 1.0, scale="complement"),
    Parameter("every", 10.0, 1.0, tuned=False),
)
_add(
    "whiten",
    2,
    functions.whiten,
    "x between the inverse fourth roots of the averages of y*y^T and y^T*y, as in Shampoo",
    parameters=_WHITEN,
    state=State(
        ("left", "right", "left_root", "right_root"),
        functions.whiten_update,
        (functions.square_of_rows, functions.square_of_columns) * 2,
        ignores=1,
    ),
    **_TENSOR,
)
_add(
    "whitenr",
    2,
    functions.whiten_rows,
    "the inverse root of the average of y*y^T, times x: one-sided Shampoo",
    parameters=_WHITEN,
    state=State(
        ("left", "left_root"), functions.whiten_rows_update, functions.square_of_rows, ignores=1
    ),
    **_TENSOR,
)
_add(
    "whitenc",
    2,
    functions.whiten_columns,
    "x times the inverse root of the average of y^T*y: one-sided Shampoo",
    parameters=_WHITEN,
    state=State(
        ("right", "right_root"),
        functions.whiten_columns_update,
        functions.square_of_columns,
        ignores=1,
    ),
    **_TENSOR,
)

# --- roles ---------------------------------------------------------------------------------------

_add(
    BY_ROLE,
    2,
    functions.choose,
    "x for hidden matrices, y for embeddings, the output layer, biases and norms",
)

_NAMES = (
    *("w", "k", "fan", "aspect", "wu", "lin", "cos", "mix", "relu", "max", "min"),
    *("ema", "mom", "prev", "orth", "unit", "rms", "rows", "cols"),
    *("whiten", "whitenr", "whitenc", BY_ROLE),
)
MODERN = tuple(operators[name] for name in _NAMES)
"""The operators of this module."""
