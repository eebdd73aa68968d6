"""The search space: operators, constraints and a maximum length define a super-tree of rules."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any, Protocol

from optsmith._errors import SpaceError
from optsmith.rules import HOLE, Operator, Rule, is_number, to_text
from optsmith.space._constraint import Constraint
from optsmith.space._slot import Choice, OpenSlot, least, measure


class Random(Protocol):
    """A random number generator, such as `random.Random` or NumPy's `Generator`."""

    def random(self) -> float:
        """Return a uniform number in [0, 1)."""


@dataclass(frozen=True, slots=True)
class Partial:
    """A node of the super-tree: the first operators of a rule, in prefix order."""

    operators: tuple[Operator, ...] = ()

    @property
    def open(self) -> int:
        """The number of slots that are not filled yet."""
        return 1 + sum(operator.arity - 1 for operator in self.operators)

    @property
    def is_complete(self) -> bool:
        """Whether this is a leaf of the super-tree: a complete rule."""
        return self.open == 0

    @property
    def rule(self) -> Rule:
        """The rule; the node must be complete."""
        return Rule(self.operators)

    def __str__(self) -> str:
        return to_text((*self.operators, *[HOLE] * self.open))


class Space:
    """The super-tree: every rule of at most `max_depth` operators that obeys the constraints.

    The root is the empty rule; a child fills the next open slot, leftmost and top-down, with one
    operator. A space is immutable; to change it, build a new one from its parts.

    Args:
        operators: The operators of the rules.
        constraints: Forbidden pairs of operator and operand.
        max_depth: Maximum number of operators of a rule.
        name: Name of the space in messages and records.
        weights: Relative probability with which each operator is drawn, by name (or number, as
            text), which includes every variant; 1 for those not listed. Without weights, operators
            are drawn uniformly.
        free_constants: Whether rules may have other numbers and other parameter values than the
            listed operators. They then belong to the space, but are neither drawn nor counted.
    """

    def __init__(
        self,
        operators: Iterable[Operator],
        constraints: Iterable[Constraint] = (),
        max_depth: int = 10,
        name: str = "custom",
        weights: Mapping[str, float] | None = None,
        free_constants: bool = False,
    ) -> None:
        self.operators = tuple(operators)
        self.constraints = tuple(constraints)
        self.max_depth = max_depth
        self.name = name
        self.weights = dict(weights or {})
        self.free_constants = free_constants
        self._listed = frozenset(self.operators)
        self._check()
        self._root = self._slots()
        self._count = cache(self._count_at)

    def _check(self) -> None:
        if self.max_depth < 1:
            raise SpaceError(f"max_depth must be at least 1, not {self.max_depth}")
        if len(set(self.operators)) < len(self.operators):
            twice = next(o for o in self.operators if self.operators.count(o) > 1)
            raise SpaceError(f"the operator {twice} is in the space twice")
        if not any(operator.arity == 0 for operator in self.operators):
            raise SpaceError("a space needs at least one input (an operator of arity 0)")
        names = {operator.name for operator in self.operators}
        for name, weight in self.weights.items():
            if name not in names:
                raise SpaceError(f"there is a weight for {name}, which is not in the space")
            if not (math.isfinite(weight) and weight > 0):
                raise SpaceError(f"the weight of {name} must be positive, not {weight}")

    def _slots(self) -> OpenSlot:
        # Constraints name operators, so all variants of one have the same slots.
        root = OpenSlot()
        below = {o.name: tuple(OpenSlot() for _ in range(o.arity)) for o in self.operators}
        places: list[tuple[str | None, int, OpenSlot]] = [(None, 0, root)]
        places += [(name, i, slot) for name in below for i, slot in enumerate(below[name])]
        for parent, i, slot in places:
            slot.choices += [
                Choice(o, below[o.name][::-1])
                for o in self.operators
                if not any(c.forbids(parent, i, o.name) for c in self.constraints)
            ]
            if not slot.choices:
                raise SpaceError(f"the constraints forbid every operand of {parent}")
            if self.weights:
                weights = (self.weights.get(c.operator.name, 1.0) for c in slot.choices)
                slot.upto = list(accumulate(weights))
        measure([slot for _, _, slot in places])
        if root.least > self.max_depth:
            raise SpaceError(f"the constraints allow no rule of at most {self.max_depth} operators")
        return root

    @property
    def root(self) -> Partial:
        """The empty rule."""
        return Partial()

    def _open(self, operators: Iterable[Operator]) -> list[OpenSlot]:
        """Return the open slots after `operators`; the slot to fill next is the last item.

        Raises:
            SpaceError: The operators are not a node of this super-tree.
        """
        stack = [self._root]
        used = 0
        for operator in operators:
            if not stack:
                raise SpaceError(f"{operator} follows a complete rule")
            slot = stack.pop()
            choice = self._choice(slot, operator)
            if choice is None:
                raise SpaceError(self._complain(operator))
            stack.extend(choice.opens)
            used += 1
        if used + least(stack) > self.max_depth:
            raise SpaceError(
                f"needs more than {self.max_depth} operators, the maximum of the space {self.name}"
            )
        return stack

    def _choice(self, slot: OpenSlot, operator: Operator) -> Choice | None:
        """Return the choice of an operator in a slot; None if it is not allowed there."""
        if operator in self._listed:  # a listed number may be forbidden where others are not
            return next((c for c in slot.choices if c.operator == operator), None)
        return next((c for c in slot.choices if self._is_variant(c.operator, operator)), None)

    def _is_variant(self, listed: Operator, operator: Operator) -> bool:
        """Return whether an operator that is not listed differs from a listed one in constants."""
        if not self.free_constants:
            return False
        return listed.name == operator.name or (is_number(listed) and is_number(operator))

    def _complain(self, operator: Operator) -> str:
        if not any(o == operator or self._is_variant(o, operator) for o in self.operators):
            return f"{operator} is not an operator of the space {self.name}"
        return f"the constraints of the space {self.name} forbid {operator} in this position"

    def why_not(self, rule: Rule) -> str:
        """Return the reason why `rule` is not in this space; an empty string if it is."""
        try:
            self._open(rule.operators)
        except SpaceError as error:
            return str(error)
        return ""

    def contains(self, rule: Rule) -> bool:
        """Return whether `rule` is a leaf of this super-tree."""
        return not self.why_not(rule)

    def knows(self, rule: Rule) -> bool:
        """Return whether a rule has only inputs and functions of the space.

        Numbers, sums and products need not be in it.
        """
        names = {operator.name for operator in self.operators} | {"add", "mul"}
        return all(o.name in names for o in rule.operators if o.name[:1].isalpha())

    def children(self, partial: Partial) -> tuple[Partial, ...]:
        """Return the children of `partial` that can be completed within `max_depth` operators."""
        stack = self._open(partial.operators)
        if not stack:
            return ()
        *others, slot = stack
        room = self.max_depth - len(partial.operators) - 1 - least(others)
        return tuple(
            Partial((*partial.operators, choice.operator))
            for choice in slot.choices
            if least(choice.opens) <= room
        )

    def unroll(self, partial: Partial, rng: Random) -> Rule:
        """Return a random completion of `partial`.

        Operators are drawn from those allowed, uniformly or by their weights. A draw that is not
        complete after `max_depth` operators is discarded and repeated. Only `rng.random()` is
        called.
        """
        start = self._open(partial.operators)
        depth, draw = self.max_depth, rng.random
        while True:
            operators, stack = list(partial.operators), start.copy()
            while stack and len(operators) < depth:
                slot = stack.pop()
                choices, upto = slot.choices, slot.upto
                if upto:
                    operator, opens = choices[bisect_right(upto, draw() * upto[-1])]
                else:
                    operator, opens = choices[int(draw() * len(choices))]
                operators.append(operator)
                stack.extend(opens)
            if not stack:
                return Rule(tuple(operators))

    def sample(self, rng: Random) -> Rule:
        """Return a random rule: a random completion of the root."""
        return self.unroll(self.root, rng)

    def count(self, length: int) -> int:
        """Return the exact number of rules of exactly `length` operators."""
        return self._count(self._root, length) if 1 <= length <= self.max_depth else 0

    def _count_at(self, slot: OpenSlot, length: int) -> int:
        total = 0
        for opens, variants in Counter(choice.opens for choice in slot.choices).items():
            if not opens:
                total += variants * (length == 1)
            elif len(opens) == 1:
                total += variants * self._count(opens[0], length - 1) if length > 1 else 0
            else:
                right, left = opens
                total += variants * sum(
                    self._count(left, n) * self._count(right, length - 1 - n)
                    for n in range(1, length - 1)
                )
        return total

    def enumerate(self, max_length: int) -> Iterator[Rule]:
        """Yield every rule of at most `max_length` operators, shortest first, in a fixed order."""
        for length in range(1, min(max_length, self.max_depth) + 1):
            for operators in self._enumerate_at(self._root, length):
                yield Rule(operators)

    def _enumerate_at(self, slot: OpenSlot, length: int) -> Iterator[tuple[Operator, ...]]:
        for operator, opens in slot.choices:
            if operator.arity == 0:
                if length == 1:
                    yield (operator,)
            elif operator.arity == 1:
                if length > 1:
                    for operand in self._enumerate_at(opens[0], length - 1):
                        yield (operator, *operand)
            else:
                right, left = opens
                for n in range(1, length - 1):
                    for first in self._enumerate_at(left, n):
                        for second in self._enumerate_at(right, length - 1 - n):
                            yield (operator, *first, *second)

    def without(self, name: str) -> Space:
        """Return the space without an operator and all its variants."""
        return Space(
            [o for o in self.operators if o.name != name],
            self.constraints,
            self.max_depth,
            self.name,
            {n: w for n, w in self.weights.items() if n != name},
            self.free_constants,
        )

    def __reduce__(self) -> tuple[type[Space], tuple[Any, ...]]:
        parts = (self.operators, self.constraints, self.max_depth, self.name)
        return Space, (*parts, self.weights, self.free_constants)

    def __repr__(self) -> str:
        return f"<Space {self.name}: {len(self.operators)} operators, depth {self.max_depth}>"
