"""The tree of a search with exploration bonus: what was drawn below each node, and what it gave."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from optsmith.rules import Operator, Rule
from optsmith.space import Partial, Space
from optsmith.space import Random as Generator

TRIES = 64
"""Draws that look for a child without draws by the space's own weights."""


class TreeNode:
    """A node of the super-tree below which rules were drawn.

    Attributes:
        draws: Number of rules drawn below it, told or not.
        losses: Losses of those that were accepted, each function once.
        keys: Fingerprints of these.
        children: Its children that have draws.
        exhausted: Whether every rule below it was drawn.
        size: Number of its children in the space; 0: not counted yet.
        reward: Sum of the rewards of `losses`.
        among: Number of accepted rules when `reward` was computed.
    """

    __slots__ = ("among", "children", "draws", "exhausted", "keys", "losses", "reward", "size")

    def __init__(self) -> None:
        self.draws = 0
        self.losses: list[float] = []
        self.keys: set[str] = set()
        self.children: dict[Operator, TreeNode] = {}
        self.exhausted = False
        self.size = 0
        self.reward, self.among = 0.0, -1


class UctTree:
    """Chooses where to draw by upper confidence bounds, and learns from the outcomes.

    The value of a node is the mean reward of all draws below it. The reward of an accepted rule is
    the share of accepted rules that it beats; that of everything else is 0: refused, failed, the
    same function as another rule below the node, or not told yet, so that draws made at the same
    time spread. A node has `widening` times the square root of its draws children to choose from,
    without the exhausted ones; new ones are drawn by the weights of the space. No rule is drawn
    twice.

    Args:
        space: The super-tree.
        exploration: Weight of the bonus of nodes with few draws.
        widening: Children per square root of the draws.
    """

    def __init__(self, space: Space, exploration: float, widening: float) -> None:
        self.space, self.exploration, self.widening = space, exploration, widening
        self.root = TreeNode()
        self._losses: list[float] = []  # of all accepted rules, sorted

    def draw(self, rng: Generator) -> Rule | None:
        """Return a new rule, and count it as a draw; None if all were drawn."""
        if self.root.exhausted:
            return None
        node, path = self.root, Partial()
        while node.draws:
            operator = None if self._widens(node, path) else self._best(node)
            if operator is None:
                break
            node, path = node.children[operator], Partial((*path.operators, operator))
        rule = self._unroll(node, path, rng)
        self.add(rule)
        return rule

    def _unroll(self, node: TreeNode, path: Partial, rng: Generator) -> Rule:
        """Return a rule below a child of the node that has no draws."""
        for _ in range(TRIES):
            rule = self.space.unroll(path, rng)
            if rule.operators[len(path.operators)] not in node.children:
                return rule
        unseen = [c for c in self.space.children(path) if c.operators[-1] not in node.children]
        return self.space.unroll(unseen[int(rng.random() * len(unseen))], rng)

    def _widens(self, node: TreeNode, path: Partial) -> bool:
        """Return whether a child without draws is next."""
        if self._is_complete(node, path):
            return False
        open_children = sum(not child.exhausted for child in node.children.values())
        return open_children < math.ceil(self.widening * math.sqrt(node.draws))

    def _is_complete(self, node: TreeNode, path: Partial) -> bool:
        """Return whether all children of a node have draws."""
        node.size = node.size or len(self.space.children(path))
        if len(node.children) < node.size:
            return False
        # A known rule may have numbers that are not drawn, so there may be more children.
        return all(c.operators[-1] in node.children for c in self.space.children(path))

    def _best(self, node: TreeNode) -> Operator:
        """Return the child with the highest upper confidence bound; of equals, the first."""
        log = math.log(node.draws)
        open_children = ((o, c) for o, c in node.children.items() if not c.exhausted)
        return max(
            open_children,
            key=lambda pair: (
                self.value(pair[1]) + self.exploration * math.sqrt(log / pair[1].draws)
            ),
        )[0]

    def value(self, node: TreeNode) -> float:
        """Return the mean reward of the draws below a node."""
        if node.among != len(self._losses):
            node.reward = sum(map(self._reward, node.losses))
            node.among = len(self._losses)
        return node.reward / node.draws

    def _reward(self, loss: float) -> float:
        """Return the share of accepted rules that are worse; equal ones count half."""
        below, upto = bisect_left(self._losses, loss), bisect_right(self._losses, loss)
        return 1 - (below + upto) / (2 * max(1, len(self._losses)))

    def add(self, rule: Rule) -> None:
        """Count a rule as a draw of all nodes above it."""
        for node in self._above(rule):
            node.draws += 1
        self._exhaust(rule)

    def tell(self, rule: Rule, loss: float, key: str, accepted: bool) -> None:
        """Register the loss of a rule for all nodes above it.

        Args:
            rule: The rule, which was drawn.
            loss: Its loss, or that of an equal rule.
            key: Its fingerprint; empty if duplicates are not detected.
            accepted: Whether it was evaluated; a duplicate counts only for nodes above it that are
                not above the rule that it equals.
        """
        if accepted:
            insort(self._losses, loss)
        for node in self._above(rule):
            if not key or key not in node.keys:
                node.keys.add(key)
                node.losses.append(loss)
                node.among = -1

    def _above(self, rule: Rule) -> Iterator[TreeNode]:
        """Yield the nodes above a rule, from the root to the rule itself; add those that lack."""
        node = self.root
        yield node
        for operator in rule.operators:
            node = node.children.setdefault(operator, TreeNode())
            yield node

    def _exhaust(self, rule: Rule) -> None:
        """Mark the rule, and the nodes above it below which there are no others."""
        *above, leaf = self._above(rule)
        leaf.exhausted = True
        for length in range(len(above) - 1, -1, -1):
            node, path = above[length], Partial(rule.operators[:length])
            if not all(c.exhausted for c in node.children.values()):
                return
            if not self._is_complete(node, path):
                return
            node.exhausted = True
