"""The probe: runs rules on fixed gradients, without training.

The gradients do not depend on the rule, so the values of inputs at all steps are computed once.
Evaluating a rule is then one vectorised pass over all steps of all trajectories.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from optsmith._threads import one_thread
from optsmith.rules import (
    Operator,
    OverCopies,
    Rule,
    Whole,
    WholeState,
    init_copies,
    stream_key,
    verify,
)
from optsmith.screening._fingerprint import Array, shape_code
from optsmith.screening._trajectory import Trajectory


class Probe:
    """Runs rules on several trajectories at once, stored as one flat vector.

    Args:
        trajectories: The trajectories.
        seed: Seed of the `drop` masks.
    """

    def __init__(self, trajectories: list[Trajectory], seed: int) -> None:
        self.trajectories = trajectories
        self.seed = seed
        self._whole = _Layout(self, None)
        self._recorded = _Layout(self, torch.cat([t.marks().flatten() for t in trajectories]))
        self._uniforms: list[Tensor] = []

    def run(self, rule: Rule) -> list[Array]:
        """Return the rule's output on each trajectory, one row per recorded step."""
        remembers = any(operator.state and operator.arity for operator in rule.operators)
        # The values of inputs are known at all steps; only operators with state need every step.
        layout = self._whole if remembers else self._recorded
        with one_thread():
            flat = layout.run(rule, self._masks(rule, layout))
        assert flat is not None  # noqa: S101 - every random node has a mask
        flat = flat.expand(layout.shape)
        rows = (flat[self._recorded.keep] if remembers else flat).numpy()
        outputs, start = [], 0
        for t in self.trajectories:
            end = start + len(t.recorded) * t.gradients.shape[1]
            outputs.append(rows[start:end].reshape(len(t.recorded), -1))
            start = end
        return outputs

    def _masks(self, rule: Rule, layout: _Layout) -> dict[int, int]:
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
            layout.run(rule, masks, seen)
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

    def input(self, operator: Operator) -> Tensor:
        """Return the value of an input for all elements."""
        if operator.feed == "nothing":
            # Not a 0-dim tensor: torch would compute `drop` of one in the mask's float32.
            return torch.tensor([operator.torch(*operator.values)], dtype=torch.float64)
        if operator.feed == "time":
            return torch.cat(
                [
                    operator.torch(t.taus, *operator.values).repeat_interleave(t.gradients.shape[1])
                    for t in self.trajectories
                ]
            )
        gradient = torch.cat([t.gradients.flatten() for t in self.trajectories])
        if operator.state:
            return self.remember(operator, gradient)
        if operator.scope == "tensor":
            return self._whole.on_tensors(operator, gradient)
        return torch.as_tensor(operator.torch(gradient, *operator.values))

    def remember(self, operator: Operator, x: Tensor, *noise: Tensor) -> Tensor:
        """Return the results of an operator with state, applied step by step to all elements."""
        state = operator.state
        assert state is not None  # noqa: S101
        update, function, whole = state.update, operator.torch, operator.scope == "tensor"
        if whole:
            update = OverCopies(WholeState(operator.name, update, len(state.slots)))
            function = OverCopies(Whole(operator.name, function))
        outputs, start = [], 0
        for t in self.trajectories:
            part = slice(start, start + t.gradients.numel())
            start = part.stop
            shape = t.tensors if whole else t.gradients.shape[1:]
            rows = [v[part].view(t.steps, *shape) for v in (x, *noise)]
            first = rows[0][0]
            slots = tuple(
                init_copies(state.init, first) if whole else state.init(first) for _ in state.slots
            )
            for k in range(1, t.steps + 1):
                operand, *uniforms = (v[k - 1] for v in rows)
                slots = update(operand, *slots, k, *operator.values)
                value = function(operand, *slots, k, *uniforms, *operator.values)
                outputs.append(value.reshape(-1) if whole else value)
        return torch.cat(outputs)


class _Layout:
    """The elements on which rules are evaluated: all, or those of recorded steps."""

    def __init__(self, probe: Probe, keep: Tensor | None) -> None:
        self.probe = probe
        self.keep = keep
        entries = sum(t.gradients.numel() for t in probe.trajectories)
        self.shape = (entries if keep is None else int(keep.sum()),)
        steps = [t.steps if keep is None else len(t.recorded) for t in probe.trajectories]
        self._tensors = [
            (n * t.tensors[0], *t.tensors[1:])
            for n, t in zip(steps, probe.trajectories, strict=True)
        ]
        self._inputs: dict[Operator, tuple[Operator, Tensor]] = {}
        self._verified: set[Any] = set()
        self._noise: dict[int, Tensor] = {}

    def _select(self, values: Tensor) -> Tensor:
        return values if self.keep is None or values.numel() == 1 else values[self.keep]

    def _input(self, operator: Operator) -> Tensor:
        # Operators are compared by name, but a name may have been registered again.
        known, value = self._inputs.get(operator, (None, None))
        if value is None or known is None or not _same(known, operator):
            verify(operator)
            value = self._select(self.probe.input(operator))
            self._inputs[operator] = (operator, value)
        return value

    def on_tensors(self, operator: Operator, *values: Tensor) -> Tensor:
        """Return the results of a stateless operator of scope "tensor" on each tensor."""
        function = OverCopies(Whole(operator.name, operator.torch))
        flat = [v.expand(self.shape) for v in values]
        outputs, start = [], 0
        for shape in self._tensors:
            part = slice(start, start + torch.Size(shape).numel())
            start = part.stop
            outputs.append(function(*(v[part].view(shape) for v in flat), *operator.values))
        return torch.cat([output.reshape(-1) for output in outputs])

    def _uniform(self, mask: int) -> Tensor:
        if mask not in self._noise:
            self._noise[mask] = self._select(self.probe.uniform(mask))
        return self._noise[mask]

    def run(
        self, rule: Rule, masks: dict[int, int], seen: dict[int, Tensor] | None = None
    ) -> Tensor | None:
        """Return the rule's output, or None if a random node has no mask.

        Args:
            rule: The rule.
            masks: Masks of random nodes, by position in the rule.
            seen: If given, filled with the operands of random nodes without a mask.
        """
        stack: list[Tensor | None] = []
        for at in range(rule.length - 1, -1, -1):
            operator = rule.operators[at]
            if operator.arity == 0:
                stack.append(self._input(operator))
                continue
            key = (operator.torch, operator.state, operator.scope)
            if key not in self._verified:
                verify(operator)
                self._verified.add(key)
            operands = [stack.pop() for _ in range(operator.arity)]
            if any(x is None for x in operands):
                stack.append(None)
                continue
            noise: tuple[Tensor, ...] = ()
            if operator.random:
                if at not in masks:
                    if seen is not None:
                        seen[at] = operands[0]  # type: ignore[assignment]
                    stack.append(None)
                    continue
                noise = (self._uniform(masks[at]),)
            if operator.state:
                x = operands[0].expand(self.shape)  # type: ignore[union-attr]
                stack.append(self.probe.remember(operator, x, *noise))
            elif operator.scope == "tensor":
                stack.append(self.on_tensors(operator, *operands, *noise))  # type: ignore[arg-type]
            else:
                stack.append(operator.torch(*operands, *noise, *operator.values))
        return stack[0]


def _same(one: Operator, other: Operator) -> bool:
    """Return whether two operators with equal names and values have the same definition."""
    return one is other or (
        one.torch is other.torch and one.state is other.state and one.scope == other.scope
    )
