"""The probe: runs rules on fixed gradients and weights, without training.

They do not depend on the rule, so the values of inputs at all steps are computed once. Evaluating a
rule is then one vectorised pass over the recorded steps of all trajectories; only operands of
operators with state are computed at all steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from optsmith._threads import one_thread
from optsmith.rules import Operator, Rule, stream_key, verify
from optsmith.screening._apply import on_tensors, over_steps
from optsmith.screening._fingerprint import Array, shape_code
from optsmith.screening._known_values import Known
from optsmith.screening._trajectory import Trajectory


class _Node(NamedTuple):
    """An operator of a rule, as it is evaluated."""

    at: int
    at_all_steps: bool  # instead of recorded steps only
    key: tuple[Operator, ...] | None  # the sub-rule, if its value is worth keeping
    value: Tensor | None  # its value, if known


class Probe:
    """Runs rules on several trajectories at once, stored as one flat vector.

    Args:
        trajectories: The trajectories.
        seed: Seed of the `drop` masks.
    """

    def __init__(self, trajectories: list[Trajectory], seed: int) -> None:
        self.trajectories = trajectories
        self.seed = seed
        self._recorded = torch.cat([t.marks().flatten() for t in trajectories]).nonzero()[:, 0]
        self._sizes = {
            True: [t.steps * t.columns for t in trajectories],
            False: [len(t.recorded) * t.columns for t in trajectories],
        }
        self._uniforms: list[Tensor] = []
        self._recorded_uniforms: dict[int, Tensor] = {}
        self._verified: set[Any] = set()
        # By whether they are at all steps; values at recorded steps are 20 times smaller.
        self._known = {True: Known(96), False: Known(1024)}

    def run(self, rule: Rule, as_vectors: bool = False) -> list[Array]:
        """Return the rule's output on each trajectory, one row per recorded step.

        Args:
            rule: The rule; it must not depend on the role of a parameter.
            as_vectors: Whether operators of scope "tensor" get vectors instead of matrices.
        """
        with one_thread():
            flat = self._evaluate(rule, self._masks(rule, as_vectors), as_vectors)
        assert flat is not None  # noqa: S101 - every random node has a mask
        rows = flat.expand(sum(self._sizes[False])).numpy()
        outputs, start = [], 0
        for t, size in zip(self.trajectories, self._sizes[False], strict=True):
            outputs.append(rows[start : start + size].reshape(len(t.recorded), -1))
            start += size
        return outputs

    def _masks(self, rule: Rule, as_vectors: bool) -> dict[int, int]:
        """Return a distinct mask for each random node, independent of the order of operands.

        Nodes are sorted by their depth of nesting in random nodes, then by a code of their operand
        that ignores its scale. So `drop(g) + drop(m1)` equals `drop(m1) + drop(g)`, and `drop(2*g)`
        equals `2*drop(g)`.
        """
        random_nodes = [i for i, operator in enumerate(rule.operators) if operator.random]
        if len(random_nodes) < 2:
            return dict.fromkeys(random_nodes, 0)
        masks: dict[int, int] = {}
        while len(masks) < len(random_nodes):
            seen: dict[int, Tensor] = {}
            self._evaluate(rule, masks, as_vectors, seen)
            for at in sorted(
                seen, key=lambda i: (shape_code(seen[i].numpy()), rule.operators[i].key, i)
            ):
                masks[at] = len(masks)
        return masks

    def uniform(self, mask: int) -> Tensor:
        """Return the uniform numbers of a mask for all elements."""
        while len(self._uniforms) <= mask:
            key = stream_key(self.seed, len(self._uniforms), 0)
            self._uniforms.append(torch.cat([t.uniform(key).flatten() for t in self.trajectories]))
        return self._uniforms[mask]

    def _recorded_uniform(self, mask: int) -> Tensor:
        if mask not in self._recorded_uniforms:
            self._recorded_uniforms[mask] = self.uniform(mask)[self._recorded]
        return self._recorded_uniforms[mask]

    def input(self, operator: Operator, as_vectors: bool = False) -> Tensor:
        """Return the value of an input for all elements."""
        if operator.feed == "nothing":
            # Not a 0-dim tensor: torch would compute `drop` of one in the mask's float32.
            return torch.tensor([operator.torch(*operator.values)], dtype=torch.float64)
        if operator.feed in ("time", "count"):
            return torch.cat(
                [
                    operator.torch(_clock(operator, t), *operator.values).repeat_interleave(
                        t.columns
                    )
                    for t in self.trajectories
                ]
            )
        fed = torch.cat([_fed(operator, t).flatten() for t in self.trajectories])
        if operator.state:
            return self._over_steps(operator, [fed], [], True, as_vectors)
        if operator.scope == "tensor":
            return self._on_tensors(operator, [fed], True, as_vectors)
        return torch.as_tensor(operator.torch(fed, *operator.values))

    # --- evaluation of a rule ---------------------------------------------------------------------

    def _evaluate(
        self,
        rule: Rule,
        masks: dict[int, int],
        as_vectors: bool,
        seen: dict[int, Tensor] | None = None,
    ) -> Tensor | None:
        """Return the rule's output at recorded steps, or None if a random node has no mask.

        Args:
            rule: The rule.
            masks: Masks of random nodes, by position in the rule.
            as_vectors: Whether operators of scope "tensor" get vectors.
            seen: If given, filled with the operands of random nodes without a mask.
        """
        stack: list[Tensor | None] = []
        for at, at_all_steps, key, known in reversed(self._nodes(rule, as_vectors)):
            operator = rule.operators[at]
            if known is not None:
                stack.append(known)
                continue
            operands = [stack.pop() for _ in range(operator.arity)]
            complete = [x for x in operands if x is not None]
            if len(complete) < len(operands) or (operator.random and at not in masks):
                if len(complete) == len(operands) and seen is not None:
                    seen[at] = complete[0]
                stack.append(None)
                continue
            mask = masks[at] if operator.random else None
            value = self._apply(operator, complete, mask, at_all_steps, as_vectors)
            if key:
                self._known[at_all_steps].add(key, as_vectors, value)
            stack.append(value)
        return stack[0]

    def _nodes(self, rule: Rule, as_vectors: bool) -> list[_Node]:
        """Return the operators to evaluate, in the order of the rule; not those below known ones.

        Known are values of inputs, of operators with state and of operators on whole tensors,
        unless they depend on random numbers, which depend on the rest of the rule.
        """
        operators = rule.operators
        ends, is_random = _extents(operators)
        nodes: list[_Node] = []
        at = below_state = 0  # what is before `below_state` is needed at all steps
        while at < len(operators):
            operator, at_all_steps = operators[at], at < below_state
            costly = not operator.arity or operator.state or operator.scope == "tensor"
            key = operators[at : ends[at]] if costly and not is_random[at] else None
            value = self._known[at_all_steps].get(key, as_vectors) if key else None
            nodes.append(_Node(at, at_all_steps, key, value))
            if operator.state and operator.arity:
                below_state = max(below_state, ends[at])
            at = at + 1 if value is None else ends[at]
        return nodes

    def _apply(
        self,
        operator: Operator,
        operands: list[Tensor],
        mask: int | None,
        at_all_steps: bool,
        as_vectors: bool,
    ) -> Tensor:
        kind = (operator.torch, operator.state, operator.scope)
        if kind not in self._verified:
            verify(operator)
            self._verified.add(kind)
        if operator.arity == 0:
            value = self.input(operator, as_vectors)
            return value if at_all_steps or value.numel() == 1 else value[self._recorded]
        if operator.state:
            noise = [] if mask is None else [self.uniform(mask)]
            return self._over_steps(operator, operands, noise, at_all_steps, as_vectors)
        if mask is not None:
            uniform = self.uniform if at_all_steps else self._recorded_uniform
            operands = [*operands, uniform(mask)]
        if operator.scope == "tensor":
            return self._on_tensors(operator, operands, at_all_steps, as_vectors)
        result: Tensor = operator.torch(*operands, *operator.values)
        return result

    def _over_steps(
        self,
        operator: Operator,
        operands: Sequence[Tensor],
        noise: Sequence[Tensor],
        at_all_steps: bool,
        as_vectors: bool,
    ) -> Tensor:
        rows, uniforms = self._rows(operands, True), self._rows(noise, True)
        results = []
        for i, t in enumerate(self.trajectories):
            steps = range(t.steps) if at_all_steps else t.recorded
            given, random = [x[i] for x in rows], [u[i] for u in uniforms]
            results.append(over_steps(operator, t, given, random, steps, as_vectors))
        return torch.cat(results)

    def _on_tensors(
        self, operator: Operator, values: Sequence[Tensor], at_all_steps: bool, as_vectors: bool
    ) -> Tensor:
        rows = self._rows(values, at_all_steps)
        return torch.cat(
            [
                on_tensors(operator, t, [x[i] for x in rows], as_vectors)
                for i, t in enumerate(self.trajectories)
            ]
        )

    def _rows(self, values: Sequence[Tensor], at_all_steps: bool) -> list[list[Tensor]]:
        """Return flat vectors, each as a matrix of steps times elements per trajectory."""
        sizes = self._sizes[at_all_steps]
        flat = [torch.split(x.expand(sum(sizes)), sizes) for x in values]
        return [
            [part.view(-1, t.columns) for part, t in zip(parts, self.trajectories, strict=True)]
            for parts in flat
        ]


def _extents(operators: tuple[Operator, ...]) -> tuple[list[int], list[bool]]:
    """Return the end of each sub-rule, and whether it contains a random operator."""
    ends, is_random = [0] * len(operators), [False] * len(operators)
    for at in range(len(operators) - 1, -1, -1):
        end, has_random = at + 1, operators[at].random
        for _ in range(operators[at].arity):
            has_random |= is_random[end]
            end = ends[end]
        ends[at], is_random[at] = end, has_random
    return ends, is_random


def _clock(operator: Operator, trajectory: Trajectory) -> Tensor:
    if operator.feed == "time":
        return trajectory.taus
    return torch.arange(1, trajectory.steps + 1, dtype=torch.float64)


def _fed(operator: Operator, trajectory: Trajectory) -> Tensor:
    if operator.feed == "gradient":
        return trajectory.gradients
    if trajectory.weights is None:
        return torch.zeros_like(trajectory.gradients)
    return trajectory.weights
