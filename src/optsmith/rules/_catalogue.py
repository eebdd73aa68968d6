"""The paper's 27 operators, and `abs` for rules that people write.

The functions are plain `def`s on tensor methods: no torch import at start-up, and `optsmith export`
can copy their source.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from optsmith.rules._operator import NAME, Operator, Parameter, State, number, operators

if TYPE_CHECKING:
    from torch import Tensor

    from optsmith.space import Space

register = operators.register

# --- unary -------------------------------------------------------------------------------------


def negate(x: Tensor) -> Tensor:
    return -x


def exponential(x: Tensor) -> Tensor:
    return x.exp()


def log_abs(x: Tensor) -> Tensor:
    return x.abs().log()


def sqrt_abs(x: Tensor) -> Tensor:
    return x.abs().sqrt()


def clip(x: Tensor, bound: float) -> Tensor:
    return x.clamp(-bound, bound)


def drop(x: Tensor, uniform: Tensor, rate: float) -> Tensor:
    """Zero a share `rate` of the entries and divide the rest by 1 - rate, as dropout does."""
    return x * (uniform >= rate) / (1 - rate)


def sign(x: Tensor) -> Tensor:
    return x.sign()


def absolute(x: Tensor) -> Tensor:
    return x.abs()


register(Operator("neg", 1, negate, lambda sp, x: -x, "-%s", symbol="-"))
register(Operator("exp", 1, exponential, lambda sp, x: sp.exp(x), r"e^{%s}"))
register(
    Operator("log", 1, log_abs, lambda sp, x: sp.log(sp.Abs(x)), r"\log\left|%s\right|", bars=True)
)
register(
    Operator(
        "sqrt", 1, sqrt_abs, lambda sp, x: sp.sqrt(sp.Abs(x)), r"\sqrt{\left|%s\right|}", bars=True
    )
)
register(
    Operator(
        "clip",
        1,
        clip,
        latex=r"\operatorname{clip}\left(%s\right)",
        parameters=(Parameter("bound", 0.003, 0.0),),
        words="clips each entry to a small range",
    )
)
register(
    Operator(
        "drop",
        1,
        drop,
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
        sign,
        lambda sp, x: sp.sign(x),
        r"\operatorname{sign}\left(%s\right)",
        words="1, 0 or \N{MINUS SIGN}1, entry by entry",
    )
)
register(Operator("abs", 1, absolute, lambda sp, x: sp.Abs(x), r"\left|%s\right|"))

# --- binary ------------------------------------------------------------------------------------


def add(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def subtract(x: Tensor, y: Tensor) -> Tensor:
    return x - y


def multiply(x: Tensor, y: Tensor) -> Tensor:
    return x * y


def divide(x: Tensor, y: Tensor) -> Tensor:
    """Divide by y moved 1e-8 away from zero, zero counted as positive."""
    return x / (y - 1e-8).where(y < 0, y + 1e-8)


def power(x: Tensor, y: Tensor) -> Tensor:
    """Raise x to y; NaN where the real power does not exist."""
    return x**y


register(Operator("add", 2, add, lambda sp, x, y: x + y, "%s + %s", symbol="+"))
register(Operator("sub", 2, subtract, lambda sp, x, y: x - y, "%s - %s", symbol="-"))
register(Operator("mul", 2, multiply, lambda sp, x, y: x * y, r"%s\,%s", symbol="*"))
register(Operator("div", 2, divide, lambda sp, x, y: x / y, r"\frac{%s}{%s}", symbol="/"))
register(Operator("pow", 2, power, lambda sp, x, y: x**y, "{%s}^{%s}", symbol="^"))

# --- inputs made of the gradient -----------------------------------------------------------------


def gradient(g: Tensor) -> Tensor:
    return g


def square(g: Tensor) -> Tensor:
    return g * g


def cube(g: Tensor) -> Tensor:
    return g * g * g


def momentum(x: Tensor, m: Tensor, k: float, beta: float) -> tuple[Tensor]:
    """Accumulate as torch's SGD does: the first value is x itself."""
    return (beta * m + x,)


def _average(x: Tensor, m: Tensor, k: float, beta: float) -> Tensor:
    # Started at the first x: then the weight of x is 1.
    return m.lerp(x, 1 - beta + beta * (k == 1))


def average_square(g: Tensor, m: Tensor, k: float, beta: float) -> tuple[Tensor]:
    return (_average(g * g, m, k, beta),)


def average_cube(g: Tensor, m: Tensor, k: float, beta: float) -> tuple[Tensor]:
    return (_average(g * g * g, m, k, beta),)


def read(g: Tensor, m: Tensor, k: float, beta: float) -> Tensor:
    """Return the memory itself."""
    return m


def read_sign(g: Tensor, m: Tensor, k: float, beta: float) -> Tensor:
    """Return the sign of the memory."""
    return m.sign()


def adam_moments(
    g: Tensor, m: Tensor, v: Tensor, k: float, scale: float, beta1: float, beta2: float, eps: float
) -> tuple[Tensor, Tensor]:
    """Average g and its square, from zero."""
    return m.lerp(g, 1 - beta1), (v * beta2).addcmul(g, g, value=1 - beta2)


def adam(
    g: Tensor, m: Tensor, v: Tensor, k: float, scale: float, beta1: float, beta2: float, eps: float
) -> Tensor:
    """Return the step of torch's Adam with learning rate `scale`."""
    step: Tensor = m / (v.sqrt() / (1 - beta2**k) ** 0.5 + eps) * (scale / (1 - beta1**k))
    return step


def rmsprop_moment(
    g: Tensor, v: Tensor, k: float, scale: float, alpha: float, eps: float
) -> tuple[Tensor]:
    """Average the square of g, from zero."""
    return ((v * alpha).addcmul(g, g, value=1 - alpha),)


def rmsprop(g: Tensor, v: Tensor, k: float, scale: float, alpha: float, eps: float) -> Tensor:
    """Return the step of torch's RMSprop with learning rate `scale`."""
    return scale * g / (v.sqrt() + eps)


MOMENTUM = State(("momentum",), momentum)
_BETA = Parameter("beta", 0.9, 0.0, 1.0)
_SLOW_BETA = Parameter("beta", 0.999, 0.0, 1.0)


def _real(name: str, **assumptions: bool) -> Any:
    """Return a SymPy function that makes the symbol `name`."""
    return lambda sp, *values: sp.Symbol(name, **(assumptions or {"real": True}))


def _input(
    name: str, words: str, torch: Any, sympy: Any = None, latex: str = "", **more: Any
) -> Operator:
    return register(
        Operator(name, 0, torch, sympy or _real(name), latex, "", "gradient", words=words, **more)
    )


_input("g", "the gradient", gradient, latex="g")
_input("g2", "the gradient squared", square, lambda sp: sp.Symbol("g", real=True) ** 2, "g^{2}")
_input("g3", "the gradient cubed", cube, lambda sp: sp.Symbol("g", real=True) ** 3, "g^{3}")
_input(
    "m1", "the momentum of the gradient", read, latex="m_{1}", state=MOMENTUM, parameters=(_BETA,)
)
_input(
    "m2",
    "the running mean of the squared gradient",
    read,
    _real("m2", nonnegative=True),
    "m_{2}",
    state=State(("average_square",), average_square),
    parameters=(_SLOW_BETA,),
)
_input(
    "m3",
    "the running mean of the cubed gradient",
    read,
    latex="m_{3}",
    state=State(("average_cube",), average_cube),
    parameters=(_SLOW_BETA,),
)
_input(
    "sg",
    "the sign of the gradient",
    sign,
    lambda sp: sp.sign(sp.Symbol("g", real=True)),
    r"\operatorname{sign}(g)",
)
_input(
    "sm1",
    "the sign of the momentum",
    read_sign,
    lambda sp, beta: sp.sign(sp.Symbol("m1", real=True)),
    r"\operatorname{sign}(m_{1})",
    state=MOMENTUM,
    parameters=(_BETA,),
)
_EPS = Parameter("eps", 1e-8, 0.0)
_input(
    "Adam",
    "the step that Adam would take",
    adam,
    latex=r"\mathrm{Adam}",
    state=State(("exp_avg", "exp_avg_sq"), adam_moments),
    parameters=(
        Parameter("scale", 3e-3, 0.0),
        Parameter("beta1", 0.9, 0.0, 1.0),
        Parameter("beta2", 0.999, 0.0, 1.0),
        _EPS,
    ),
)
_input(
    "RMSprop",
    "the step that RMSprop would take",
    rmsprop,
    latex=r"\mathrm{RMSprop}",
    state=State(("square_avg",), rmsprop_moment),
    parameters=(Parameter("scale", 3e-2, 0.0), Parameter("alpha", 0.99, 0.0, 1.0), _EPS),
)

# --- inputs made of time, and constants ----------------------------------------------------------


def linear_decay(tau: Tensor) -> Tensor:
    return 1 - tau


def cosine_decay(tau: Tensor, n: float) -> Tensor:
    return 0.5 * (1 + (2 * math.pi * n * tau).cos())


def restart_decay(tau: Tensor, n: float) -> Tensor:
    return 0.5 * (1 + (math.pi * ((n * tau) % 1)).cos())


def _decay(name: str, words: str, torch: Any, *parameters: Parameter) -> Operator:
    positive = _real(name, positive=True)  # strictly inside (0, 1] at every step of a run
    latex = rf"\mathrm{{{name}}}"
    return register(Operator(name, 0, torch, positive, latex, "", "time", parameters, words=words))


_decay("ld", "linear decay over the run, from 1 to 0", linear_decay)
_decay("cd", "cosine decay over the run, from 1 to 0", cosine_decay, Parameter("n", 0.5, 0.0))
_decay("rd", "cosine decay with restarts", restart_decay, Parameter("n", 20.0, 0.0))

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

BUILT_IN = dict(operators)
"""The operators that come with the package, by name."""


def is_built_in(operator: Operator) -> bool:
    """Return whether an operator, or what it is a variant of, comes with the package."""
    if not NAME.fullmatch(operator.name):
        return True  # a number
    ours = BUILT_IN.get(operator.name)
    return ours is not None and (ours.torch, ours.state) == (operator.torch, operator.state)


def definitions(source: Space | Iterable[Operator]) -> dict[str, str]:
    """Return the definitions of operators that do not come with the package, by name.

    Args:
        source: A space, or operators.
    """
    every: Any = getattr(source, "operators", source)
    found = {o.name: o.definition for o in every if not is_built_in(o)}
    return dict(sorted(found.items()))
