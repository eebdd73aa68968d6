"""Random rules: a Hypothesis strategy, and the same from a seeded generator.

Rules are drawn from the whole language: the paper's operators, `abs`, numbers, variants with
parameters, and operators that a user added (CUSTOM, which `registered` adds for a while).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator

from hypothesis import strategies as st

from optsmith import Operator, Parameter, Rule, State, operators
from optsmith.rules import MODERN, PAPER, number

TANH = Operator("tanh", 1, lambda x: x.tanh(), lambda sp, x: sp.tanh(x))
EMA = Operator(
    "smooth",
    1,
    lambda x, m, k, beta: m,
    parameters=(Parameter("beta", 0.9, 0.0, 1.0),),
    state=State(("average",), lambda x, m, k, beta: (beta * m + (1 - beta) * x,)),
)
LARGER = Operator("larger_of", 2, lambda x, y: x.maximum(y))
NOISE = Operator(
    "noise",
    1,
    lambda x, uniform, size: x + size * (uniform - 0.5),
    parameters=(Parameter("size", 1.0),),
    random=True,
)
CUSTOM = (TANH, EMA, LARGER, NOISE)


def papers(zoo):
    """Return the names of the rules that have operators of the paper only."""
    modern = {operator.name for operator in MODERN}
    return [n for n in zoo if not modern & {o.name for o in zoo[n].rule.operators}]


@contextlib.contextmanager
def registered(*added: Operator) -> Iterator[None]:
    """Let texts name these operators inside the `with` block."""
    for operator in added:
        operators.register(operator)
    try:
        yield
    finally:
        for operator in added:
            operators.remove(operator.name)


_POOL = (*PAPER, operators["abs"], operators["wc"], *CUSTOM)
_VARIANTS = (
    operators["drop"].variant(0.3),
    operators["drop"].variant(0.0),
    operators["clip"].variant(0.01),
    operators["clip"].variant(1e-20),
    operators["m1"].variant(0.95),
    operators["sm1"].variant(0.5),
    operators["m2"].variant(0.9),
    operators["Adam"].variant(beta1=0.8, eps=1e-6),
    operators["RMSprop"].variant(1.0),
    operators["cd"].variant(1.5),
    operators["rd"].variant(3),
    EMA.variant(0.25),
    NOISE.variant(-2.5e-7),
)
_NUMBERS = tuple(map(number, (0.0, 0.5, 3.0, 10.0, 1e-3, 123456.789, 1e16, 1e22, 5e-324, 1e308)))
_EVERYTHING = (*_POOL, *_VARIANTS, *_NUMBERS)
_BY_ARITY = tuple(tuple(o for o in _EVERYTHING if o.arity == n) for n in range(3))
# By the room that is left: inputs often enough that lengths spread up to the maximum.
_ARITIES = ((0,), (0, 1), (0, 1, 1, 2, 2))


def _build(max_length: int, pick: Callable[[tuple], object]) -> Rule:
    chosen: list[Operator] = []
    slots = 1
    while slots:
        room = max_length - len(chosen) - slots
        operator = pick(_BY_ARITY[pick(_ARITIES[min(room, 2)])])
        chosen.append(operator)
        slots += operator.arity - 1
    return Rule(tuple(chosen))


@st.composite
def rules(draw: st.DrawFn, max_length: int = 12) -> Rule:
    """Draw a complete rule of at most `max_length` operators."""
    finite = st.floats(0, allow_nan=False, allow_infinity=False).map(number)

    def pick(options: tuple) -> object:
        if options is _BY_ARITY[0] and draw(st.integers(0, 7)) == 7:
            return draw(finite)
        return draw(st.sampled_from(options))

    return _build(max_length, pick)


def random_rule(rng: random.Random, max_length: int = 12) -> Rule:
    """Return a rule from a seeded generator; much faster than the strategy."""
    return _build(max_length, rng.choice)
