"""Reference implementation of the screen: recursive, step by step, without caching."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from optsmith.rules import Operator, Rule
from optsmith.screening import Screen, Screening
from optsmith.screening._fingerprint import Array, fingerprints
from optsmith.screening._screen import _cosines, _malformed, _probes


class Plain:
    """Screens a rule recursively and step by step, with explicit state."""

    def __init__(self) -> None:
        probes, *self.units = _probes(0)
        self.probe = probes.elements
        self.settings = Screen()

    def __call__(self, rule: Rule) -> Screening:
        """Return the result of `Screen`, for rules with at most one `drop`."""
        with np.errstate(all="ignore"):
            recorded, descent, small = (self._run(rule, i) for i in range(3))
            codes = fingerprints(recorded)
            reason = _malformed(recorded)
            if reason:
                return Screening(False, reason, math.nan, math.nan, *codes)
            cosine = float(_cosines(descent.reshape(25, 25), self.units[0]).mean())
            smallest = float(_cosines(small, self.units[1]).min())
        reason = self.settings._refuse(cosine, smallest)
        return Screening(not reason, reason, cosine, smallest, *codes)

    def _run(self, rule: Rule, index: int) -> Array:
        trajectory = self.probe.trajectories[index]
        states: dict[int, tuple[Tensor, ...]] = {}
        rows = []
        for k in range(1, trajectory.steps + 1):
            gradient, tau = trajectory.gradients[k - 1], trajectory.taus[k - 1 : k]
            _, value = self._evaluate(rule.operators, 0, gradient, tau, k, states, index)
            if k - 1 in trajectory.recorded:
                rows.append(value.expand(gradient.shape))
        return torch.stack(rows).numpy()

    def _evaluate(
        self,
        prefix: tuple[Operator, ...],
        at: int,
        gradient: Tensor,
        tau: Tensor,
        k: int,
        states: dict[int, tuple[Tensor, ...]],
        index: int,
    ) -> tuple[int, Tensor]:
        """Return the end index and the value of the sub-rule that starts at `at`."""
        operator = prefix[at]
        if operator.feed == "nothing":
            return at + 1, torch.tensor([operator.torch()], dtype=torch.float64)
        feeds = {"gradient": [gradient], "time": [tau]}.get(operator.feed, [])
        end = at + 1
        for _ in range(operator.arity):
            end, value = self._evaluate(prefix, end, gradient, tau, k, states, index)
            feeds.append(value)
        arguments: list[Any] = feeds
        if operator.state:
            slots = states.get(at) or tuple(
                operator.state.init(feeds[0]) for _ in operator.state.slots
            )
            states[at] = operator.state.update(feeds[0], *slots, k, *operator.values)
            arguments = [*feeds, *states[at], k]
        if operator.random:
            mask = sum(o.random for o in prefix[:at])
            arguments = [*arguments, self._uniform(mask, index)[k - 1]]
        return end, operator.torch(*arguments, *operator.values)

    def _uniform(self, mask: int, index: int) -> Tensor:
        shapes = [t.gradients.shape for t in self.probe.trajectories]
        parts = self.probe.uniform(mask).split([shape.numel() for shape in shapes])
        return parts[index].view(shapes[index])
