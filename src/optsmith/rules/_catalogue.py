"""The operators of the paper, `abs` and `wc`; those of the space `modern` are in `_modern.py`."""

from __future__ import annotations

from typing import Any

from optsmith.rules import _functions as functions
from optsmith.rules._operator import Operator, Parameter, State, number, operators

register = operators.register

# --- unary -------------------------------------------------------------------------------------

register(Operator("neg", 1, functions.negate, lambda sp, x: -x, "-%s", symbol="-"))
register(Operator("exp", 1, functions.exponential, lambda sp, x: sp.exp(x), r"e^{%s}"))
register(
    Operator(
        "log",
        1,
        functions.log_abs,
        lambda sp, x: sp.log(sp.Abs(x)),
        r"\log\left|%s\right|",
        bars=True,
    )
)
register(
    Operator(
        "sqrt",
        1,
        functions.sqrt_abs,
        lambda sp, x: sp.sqrt(sp.Abs(x)),
        r"\sqrt{\left|%s\right|}",
        bars=True,
    )
)
register(
    Operator(
        "clip",
        1,
        functions.clip,
        latex=r"\operatorname{clip}\left(%s\right)",
        parameters=(Parameter("bound", 0.003, 0.0, scale="log"),),
        words="clips each entry to a small range",
    )
)
register(
    Operator(
        "drop",
        1,
        functions.drop,
        latex=r"\operatorname{drop}\left(%s\right)",
        parameters=(Parameter("rate", 0.1, 0.0, 1.0),),
        random=True,
        words="zeroes some of the entries at random",
    )
)
register(
    Operator(
        "sign",
        1,
        functions.sign,
        lambda sp, x: sp.sign(x),
        r"\operatorname{sign}\left(%s\right)",
        words="1, 0 or \N{MINUS SIGN}1, entry by entry",
    )
)
register(Operator("abs", 1, functions.absolute, lambda sp, x: sp.Abs(x), r"\left|%s\right|"))

# --- binary ------------------------------------------------------------------------------------

register(Operator("add", 2, functions.add, lambda sp, x, y: x + y, "%s + %s", symbol="+"))
register(Operator("sub", 2, functions.subtract, lambda sp, x, y: x - y, "%s - %s", symbol="-"))
register(Operator("mul", 2, functions.multiply, lambda sp, x, y: x * y, r"%s\,%s", symbol="*"))
register(Operator("div", 2, functions.divide, lambda sp, x, y: x / y, r"\frac{%s}{%s}", symbol="/"))
register(Operator("pow", 2, functions.power, lambda sp, x, y: x**y, "{%s}^{%s}", symbol="^"))

# --- inputs computed from the gradient ----------------------------------------------------------

MOMENTUM = State(("momentum",), functions.momentum, scan=functions.scan_momentum)
"""beta*m + x, shared by `m1`, `sm1` and `mom`."""

_BETA = Parameter("beta", 0.9, 0.0, 1.0, scale="complement")
_SLOW_BETA = Parameter("beta", 0.999, 0.0, 1.0, scale="complement")


def _real(name: str, **assumptions: bool) -> Any:
    """Return the SymPy function of an input: it returns the symbol `name`."""
    return lambda sp, *values: sp.Symbol(name, **(assumptions or {"real": True}))


def _input(
    name: str, words: str, torch: Any, sympy: Any = None, latex: str = "", **more: Any
) -> Operator:
    return register(
        Operator(name, 0, torch, sympy or _real(name), latex, "", "gradient", words=words, **more)
    )


_input("g", "the gradient", functions.gradient, latex="g")
_input(
    "g2",
    "the gradient squared",
    functions.square,
    lambda sp: sp.Symbol("g", real=True) ** 2,
    "g^{2}",
)
_input(
    "g3", "the gradient cubed", functions.cube, lambda sp: sp.Symbol("g", real=True) ** 3, "g^{3}"
)
_input(
    "m1",
    "the momentum of the gradient",
    functions.read,
    latex="m_{1}",
    state=MOMENTUM,
    parameters=(_BETA,),
)
_input(
    "m2",
    "the running mean of the squared gradient",
    functions.read,
    _real("m2", nonnegative=True),
    "m_{2}",
    state=State(("average_square",), functions.average_square),
    parameters=(_SLOW_BETA,),
)
_input(
    "m3",
    "the running mean of the cubed gradient",
    functions.read,
    latex="m_{3}",
    state=State(("average_cube",), functions.average_cube),
    parameters=(_SLOW_BETA,),
)
_input(
    "sg",
    "the sign of the gradient",
    functions.sign,
    lambda sp: sp.sign(sp.Symbol("g", real=True)),
    r"\operatorname{sign}(g)",
)
_input(
    "sm1",
    "the sign of the momentum",
    functions.read_sign,
    lambda sp, beta: sp.sign(sp.Symbol("m1", real=True)),
    r"\operatorname{sign}(m_{1})",
    state=MOMENTUM,
    parameters=(_BETA,),
)
_EPS = Parameter("eps", 1e-8, 0.0, scale="log")
_input(
    "Adam",
    "the step that Adam would take",
    functions.adam,
    latex=r"\mathrm{Adam}",
    state=State(("exp_avg", "exp_avg_sq"), functions.adam_moments),
    parameters=(
        Parameter("scale", 3e-3, 0.0, scale="log"),
        Parameter("beta1", 0.9, 0.0, 1.0, scale="complement"),
        Parameter("beta2", 0.999, 0.0, 1.0, scale="complement"),
        _EPS,
    ),
)
_input(
    "RMSprop",
    "the step that RMSprop would take",
    functions.rmsprop,
    latex=r"\mathrm{RMSprop}",
    state=State(("square_avg",), functions.rmsprop_moment),
    parameters=(
        Parameter("scale", 3e-2, 0.0, scale="log"),
        Parameter("alpha", 0.99, 0.0, 1.0, scale="complement"),
        _EPS,
    ),
)

# --- inputs computed from time ------------------------------------------------------------------


def _decay(name: str, words: str, torch: Any, *parameters: Parameter) -> Operator:
    positive = _real(name, positive=True)  # it is in (0, 1] at every step of a run
    latex = rf"\mathrm{{{name}}}"
    return register(Operator(name, 0, torch, positive, latex, "", "time", parameters, words=words))


_decay("ld", "linear decay over the run, from 1 to 0", functions.linear_decay)
_decay(
    "cd",
    "cosine decay over the run, from 1 to 0",
    functions.cosine_decay,
    Parameter("n", 0.5, 0.0, scale="log"),
)
_decay(
    "rd",
    "cosine decay with restarts",
    functions.restart_decay,
    Parameter("n", 20.0, 0.0, scale="log"),
)
_decay(
    "wc",
    "warm-up from 0 to 1, then cosine decay to 0",
    functions.warmup_cosine,
    Parameter("warmup", 0.1, 0.0, 1.0),
)

UNARY = tuple(operators[n] for n in ("neg", "exp", "log", "sqrt", "clip", "drop", "sign"))
BINARY = tuple(operators[n] for n in ("add", "sub", "mul", "div", "pow"))
_GRADIENTS = ("g", "g2", "g3", "m1", "m2", "m3", "sg", "sm1", "Adam", "RMSprop")
INPUTS = (
    *(operators[n] for n in _GRADIENTS),
    number(1.0),
    number(2.0),
    *(operators[n] for n in ("ld", "cd", "rd")),
)
PAPER = (*UNARY, *BINARY, *INPUTS)
"""The operators of the paper: 7 unary, 5 binary, 15 inputs."""
