"""The values of sub-rules on the probe that were used last."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor

from optsmith.rules import Operator

SubRule = tuple[Operator, ...]


class Known:
    """Values by sub-rule, of which those used longest ago are forgotten.

    Without a limit, a search that tunes constants would fill the memory: every value of a constant
    makes another input.

    Args:
        limit: Largest number of values.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._values: OrderedDict[tuple[SubRule, bool], tuple[SubRule, Tensor]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, sub_rule: SubRule, as_vectors: bool) -> Tensor | None:
        """Return the value of a sub-rule, if it is known."""
        key = (sub_rule, as_vectors and _sees_shapes(sub_rule))
        found = self._values.get(key)
        # Operators are compared by name, but a name may have been registered again.
        if found is None or not all(map(_same, found[0], sub_rule)):
            return None
        self._values.move_to_end(key)
        return found[1]

    def add(self, sub_rule: SubRule, as_vectors: bool, value: Tensor) -> None:
        """Keep the value of a sub-rule."""
        key = (sub_rule, as_vectors and _sees_shapes(sub_rule))
        self._values[key] = (sub_rule, value)
        self._values.move_to_end(key)
        if len(self._values) > self.limit:
            self._values.popitem(last=False)


def _sees_shapes(sub_rule: SubRule) -> bool:
    """Return whether the value differs between vectors and matrices."""
    return any(operator.scope == "tensor" for operator in sub_rule)


def _same(one: Operator, other: Operator) -> bool:
    """Return whether two operators with equal names and values have the same definition."""
    return one is other or (
        one.torch is other.torch and one.state is other.state and one.scope == other.scope
    )
