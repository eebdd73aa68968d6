"""Algebraic rewrites of rules into other forms of the same function.

Each rewrite is an identity of real numbers. With floating-point numbers, guarded division and
powers that can be NaN, some of them fail for some rules, so the caller must check the result. Each
`drop` has its own mask, so no rewrite may duplicate a `drop` or merge two.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from optsmith.rules import Operator, Rule, number, operators


@dataclass(frozen=True, slots=True)
class Node:
    """An operator with its operands."""

    operator: Operator
    operands: tuple[Node, ...] = ()

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.operator.name

    @property
    def is_fixed(self) -> bool:
        """Whether two copies have the same value: the sub-rule contains no `drop`."""
        return not self.operator.random and all(x.is_fixed for x in self.operands)

    def prefix(self) -> Iterator[Operator]:
        """Yield the operators in prefix order."""
        yield self.operator
        for operand in self.operands:
            yield from operand.prefix()


def _of(name: str, *operands: Node) -> Node:
    return Node(operators[name] if name in operators else number(float(name)), operands)


G, G2, M1 = _of("g"), _of("g2"), _of("m1")
E = _of("exp", _of("1"))


def _commute(x: Node, rng: random.Random) -> Node | None:
    if x.name in ("add", "mul"):
        return Node(x.operator, x.operands[::-1])
    return None


def _associate(x: Node, rng: random.Random) -> Node | None:
    if x.name not in ("add", "mul"):
        return None
    left, right = x.operands
    ways = []
    if left.name == x.name:
        a, b = left.operands
        ways.append(Node(x.operator, (a, Node(x.operator, (b, right)))))
    if right.name == x.name:
        b, c = right.operands
        ways.append(Node(x.operator, (Node(x.operator, (left, b)), c)))
    return rng.choice(ways) if ways else None


def _distribute(x: Node, rng: random.Random) -> Node | None:
    if x.name != "mul":
        return None
    for a, total in (x.operands, x.operands[::-1]):
        if a.is_fixed and total.name in ("add", "sub"):
            b, c = total.operands
            return Node(total.operator, (_of("mul", a, b), _of("mul", a, c)))
    return None


def _factor(x: Node, rng: random.Random) -> Node | None:
    if x.name not in ("add", "sub") or any(term.name != "mul" for term in x.operands):
        return None
    for a, b in (x.operands[0].operands, x.operands[0].operands[::-1]):
        for other, c in (x.operands[1].operands, x.operands[1].operands[::-1]):
            if a == other and a.is_fixed:
                return _of("mul", a, Node(x.operator, (b, c)))
    return None


def _double(x: Node, rng: random.Random) -> Node | None:
    if x.name == "add" and x.operands[0] == x.operands[1] and x.operands[0].is_fixed:
        return _of("mul", _of("2"), x.operands[0])
    if x.name == "mul" and _of("2") in x.operands:
        once = x.operands[0] if x.operands[1] == _of("2") else x.operands[1]
        return _of("add", once, once) if once.is_fixed else None
    return None


def _square(x: Node, rng: random.Random) -> Node | None:
    if x.name == "mul" and x.operands[0] == x.operands[1] and x.operands[0].is_fixed:
        return _of("pow", x.operands[0], _of("2"))
    if x.name == "pow" and x.operands[1] == _of("2") and x.operands[0].is_fixed:
        return _of("mul", x.operands[0], x.operands[0])
    return None


def _negate_twice(x: Node, rng: random.Random) -> Node | None:
    return _of("neg", _of("neg", x))


def _subtract(x: Node, rng: random.Random) -> Node | None:
    if x.name == "sub":
        return _of("add", x.operands[0], _of("neg", x.operands[1]))
    if x.name == "add" and x.operands[1].name == "neg":
        return _of("sub", x.operands[0], x.operands[1].operands[0])
    if x.name == "neg" and x.operands[0].name == "sub":
        return _of("sub", *x.operands[0].operands[::-1])
    return None


def _negate_product(x: Node, rng: random.Random) -> Node | None:
    if x.name == "neg" and x.operands[0].name == "mul":
        a, b = x.operands[0].operands
        return _of("mul", _of("neg", a), b)
    if x.name == "mul" and x.operands[0].name == "neg":
        return _of("neg", _of("mul", x.operands[0].operands[0], x.operands[1]))
    return None


def _divide_product(x: Node, rng: random.Random) -> Node | None:
    if x.name == "div" and x.operands[0].name == "mul":
        a, b = x.operands[0].operands
        return _of("mul", a, _of("div", b, x.operands[1]))
    if x.name == "mul" and x.operands[1].name == "div":
        b, c = x.operands[1].operands
        return _of("div", _of("mul", x.operands[0], b), c)
    return None


def _scale_in_sign(x: Node, rng: random.Random) -> Node | None:
    if x.name != "sign":
        return None
    factor = rng.choice((_of("2"), _of("ld"), E, _of("exp", _of("Adam"))))
    return _of("sign", _of("mul", factor, x.operands[0]))


def _negate_in_bars(x: Node, rng: random.Random) -> Node | None:
    if not x.operator.bars:
        return None
    inside = x.operands[0]
    return Node(x.operator, inside.operands if inside.name == "neg" else (_of("neg", inside),))


def _name_input(x: Node, rng: random.Random) -> Node | None:
    return _INPUTS.get(x)


def _product_of_exp(x: Node, rng: random.Random) -> Node | None:
    if x.name == "mul" and all(factor.name == "exp" for factor in x.operands):
        return _of("exp", _of("add", *(factor.operands[0] for factor in x.operands)))
    if x.name == "exp" and x.operands[0].name == "add":
        return _of("mul", *(_of("exp", term) for term in x.operands[0].operands))
    return None


def _neutral(x: Node, rng: random.Random) -> Node | None:
    one, zero = _of("1"), _of("0")
    return rng.choice((_of("mul", one, x), _of("add", x, zero), _of("pow", x, one)))


_PAIRS = (
    (_of("sg"), _of("sign", G)),
    (_of("sm1"), _of("sign", M1)),
    (G2, _of("mul", G, G)),
    (_of("g3"), _of("mul", G, G2)),
)
_INPUTS = dict(_PAIRS) | {text: name for name, text in _PAIRS}

REWRITES: dict[str, Callable[[Node, random.Random], Node | None]] = {
    "a+b = b+a, a*b = b*a": _commute,
    "(a+b)+c = a+(b+c), also *": _associate,
    "a*(b+c) -> a*b + a*c": _distribute,
    "a*b + a*c -> a*(b+c)": _factor,
    "x+x = 2*x": _double,
    "x*x = x^2": _square,
    "x -> -(-x)": _negate_twice,
    "a-b = a+(-b), -(a-b) = b-a": _subtract,
    "-(a*b) = (-a)*b": _negate_product,
    "(a*b)/c = a*(b/c)": _divide_product,
    "sign(x) -> sign(c*x), c > 0": _scale_in_sign,
    "log(-x) = log(x), also sqrt": _negate_in_bars,
    "sg = sign(g), g2 = g*g, ...": _name_input,
    "exp(a)*exp(b) = exp(a+b)": _product_of_exp,
    "x -> 1*x, x+0, x^1": _neutral,
}
"""Rewrites of one node, by identity; they return None if the identity does not apply."""

SCALINGS: dict[str, Callable[[Node], Node]] = {
    "2*x": lambda x: _of("mul", _of("2"), x),
    "x+x": lambda x: _of("add", x, x),
    "x*0.5": lambda x: _of("mul", x, _of("0.5")),
    "exp(1)*x": lambda x: _of("mul", E, x),
}
"""Multiplications of a rule by a positive number."""


def _everywhere(x: Node, rewrite: Callable[[Node], Node | None]) -> Iterator[Node]:
    """Yield the trees obtained by rewriting `x` at one node, for every node that allows it."""
    here = rewrite(x)
    if here is not None:
        yield here
    for i, operand in enumerate(x.operands):
        for other in _everywhere(operand, rewrite):
            yield Node(x.operator, (*x.operands[:i], other, *x.operands[i + 1 :]))


def _tree(rule: Rule) -> Node:
    return rule.fold(lambda operator, operands: Node(operator, tuple(operands)))


def _rule(tree: Node) -> Rule:
    return Rule(tuple(tree.prefix()))


def rewrite(rule: Rule, rng: random.Random) -> tuple[Rule, list[str]]:
    """Apply one to three random rewrites at random nodes.

    Returns:
        Another form of the same function, and the identities used.
    """
    tree, used = _tree(rule), []
    # A later rewrite can undo an earlier one, so the result is compared at the end.
    while not used or tree == _tree(rule):
        used = []
        tree = _tree(rule)
        for _ in range(rng.randint(1, 3)):
            name, trees = _draw(tree, rng)
            used.append(name)
            tree = rng.choice(trees)
    return _rule(tree), used


def _draw(tree: Node, rng: random.Random) -> tuple[str, list[Node]]:
    """Return a random identity that applies to the tree, and the rewritten trees."""
    while True:
        name = rng.choice(list(REWRITES))
        trees = list(_everywhere(tree, lambda x, name=name: REWRITES[name](x, rng)))
        if trees:
            return name, trees


def rescale(rule: Rule, rng: random.Random) -> tuple[Rule, str]:
    """Return a rule multiplied by a positive number in one of several forms, and that form."""
    tree = _tree(rule)
    names = [name for name in SCALINGS if name != "x+x" or tree.is_fixed]
    name = rng.choice(names)
    return _rule(SCALINGS[name](tree)), name
