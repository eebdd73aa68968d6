"""The rule: an immutable expression tree of operators, stored in prefix order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from optsmith._errors import RuleError
from optsmith.rules._latex import to_latex
from optsmith.rules._operator import Operator
from optsmith.rules._parse import MAX_LENGTH, parse
from optsmith.rules._print import fold, to_text, to_tree

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rule:
    """An update rule phi, used in training as `theta -= lr * phi(gradient)`.

    The tree is stored as its operators in prefix order (an operator, then its operands), the order
    in which the super-tree fills slots. Two rules are equal if their trees are.

    Args:
        operators: A complete tree in prefix order.

    Raises:
        RuleError: The operators do not form exactly one tree.
    """

    operators: tuple[Operator, ...]

    def __post_init__(self) -> None:
        slots = 1
        for i, operator in enumerate(self.operators):
            if slots == 0:
                raise RuleError(f"the rule is complete after {i} operators, but more follow")
            slots += operator.arity - 1
        if slots:
            raise RuleError(f"the rule is incomplete: {slots} operand(s) missing")
        if len(self.operators) > MAX_LENGTH:
            raise RuleError(f"the rule has more than {MAX_LENGTH} operators")

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Return the rule for a text in ordinary math, such as `ld*sign(m1) - Adam`.

        `log(x)` and `sqrt(x)` act on |x|; `|x|` is `abs(x)`; `^` and `**` are powers; parameters
        follow the operands, as in `drop(x, 0.3)`.

        Raises:
            RuleError: The text is not a rule; the error carries the position.
        """
        return cls(parse(text))

    @property
    def length(self) -> int:
        """The number of operators, including inputs."""
        return len(self.operators)

    def fold(self, combine: Callable[[Operator, list[T]], T]) -> T:
        """Return a value computed bottom-up with `combine(operator, values of its operands)`."""
        return fold(self.operators, combine)

    def uses(self, feed: str) -> bool:
        """Return whether the rule has an input of the kind `feed` ("gradient", "time")."""
        return any(operator.feed == feed for operator in self.operators)

    def latex(self) -> str:
        """Return the rule as LaTeX math."""
        return to_latex(self.operators)

    def tree(self) -> str:
        """Return the tree drawn as text, one operator per line."""
        return to_tree(self.operators)

    def simplify(self, timeout: float = 10.0) -> Rule:
        """Return a shorter rule for the same function, found by SymPy, or this rule.

        If SymPy exceeds `timeout` seconds, fails, or returns a rule that differs on the probe, the
        rule is returned unchanged with a `SimplifyWarning`.
        """
        from optsmith.rules._simplify import simplify  # imports SymPy and torch only when needed

        return simplify(self, timeout)

    def __str__(self) -> str:
        return to_text(self.operators)

    def __repr__(self) -> str:
        return f"Rule.parse({str(self)!r})"
