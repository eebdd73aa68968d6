"""One rule on a stack of model copies: each copy is a row, with its own learning rate and seed.

A rule is element-wise, so the copies need no loop: the same instructions run on all rows at once,
in pieces that stay in the cache, and only the last one knows the learning rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from optsmith.optim._plan import Plan
from optsmith.optim._program import Program
from optsmith.optim._uniforms import uniforms
from optsmith.rules import Rule
from optsmith.rules._noise import stream_key

PIECE = 1 << 18
"""Elements worked on at a time: fewer make more calls, more leave the cache."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which parameter each column of a matrix belongs to, and which of its elements it is.

    Attributes:
        parameters: Number of each parameter in the model.
        sizes: Elements of each.
    """

    parameters: tuple[int, ...]
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return sum(self.sizes)

    def keys(self, seeds: Sequence[int], node: int) -> list[list[int]]:
        """Return the keys of a random operator: of each parameter, for each seed."""
        return [[stream_key(seed, node, p) for seed in seeds] for p in self.parameters]

    def uniforms(self, keys: Sequence[Sequence[int]], t: int, device: torch.device) -> Tensor:
        """Return the numbers that optimizers of their own would draw, a row for each seed."""
        pairs = zip(keys, self.sizes, strict=True)
        return torch.cat(
            [uniforms(of_seeds, t, 0, size, device) for of_seeds, size in pairs], dim=1
        )


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some rows, and some columns of them, that are worked on together."""

    rows: slice
    columns: slice
    param: Tensor
    buffers: list[Tensor]
    last: Tensor
    lrs: Tensor


class RowOptimizer:
    """Trains rows of matrices with one rule: `row -= lr * rule(gradient of the row)`.

    Each row comes out as if an optimizer of its own had trained it, up to rounding. What is not
    finite in one row never reaches another.

    Args:
        rule: The rule.
        params: The matrices; their rows may be any rows of larger ones.
        columns: What the columns of each matrix are.
        lrs: Learning rate of each row.
        seeds: Seed of each row, for `drop` masks.
        total_steps: Length of the run.
        weight_decay: Shrinks the parameters at each step, as in AdamW.
        decay: The schedule that the shrinking follows, as a rule of time alone.
    """

    def __init__(
        self,
        rule: Rule,
        params: Sequence[Tensor],
        columns: Sequence[Columns],
        lrs: Sequence[float],
        seeds: Sequence[int],
        total_steps: int,
        weight_decay: float = 0.0,
        decay: Rule | None = None,
    ) -> None:
        self.program = Program(rule)
        self.plan = Plan(self.program)
        if params[0].device.type == "cpu":
            self.plan.steps = [
                replace(step, function=_square_root) if step.name == "sqrt" else step
                for step in self.plan.steps
            ]
        self.columns, self.seeds, self.total_steps = list(columns), list(seeds), total_steps
        self.weight_decay, self._decay = weight_decay, Program(decay) if decay else None
        self.lrs = params[0].new_tensor(list(lrs)).view(-1, 1)
        self.states = [list(self.program.init(p)) for p in params]
        self.t = 0
        self._literals = [
            torch.tensor(x, dtype=self.lrs.dtype) if as_tensor else x
            for as_tensor, x in self.plan.literals
        ]
        self._attach(params)

    @property
    def slots(self) -> int:
        """Tensors of state that a parameter has."""
        return len(self.program.slots)

    def keep(self, rows: Sequence[int], params: Sequence[Tensor]) -> None:
        """Go on with some rows alone, which are now the rows of `params`."""
        index = torch.tensor(list(rows), device=self.lrs.device)
        self.lrs = self.lrs[index]
        self.seeds = [self.seeds[i] for i in rows]
        self.states = [[s[index] for s in state] for state in self.states]
        self._attach(params)

    def _attach(self, params: Sequence[Tensor]) -> None:
        """Cut everything but the gradients into pieces, once: each view costs a call."""
        self.params = list(params)
        largest = max(p.numel() for p in params)
        # On a GPU calls cost, not memory traffic.
        most = min(PIECE, largest) if self.lrs.device.type == "cpu" else largest
        scratch = [self.lrs.new_empty(most) for _ in range(self.plan.scratch + 1)]
        self._pieces = [
            [self._piece(i, rows, columns, scratch) for rows, columns in _cuts(p, most)]
            for i, p in enumerate(params)
        ]
        distinct = {seed: j for j, seed in enumerate(dict.fromkeys(self.seeds))}
        nodes = range(len(self.program.code.uniforms))
        self._keys = [[c.keys(list(distinct), node) for node in nodes] for c in self.columns]
        rows = [distinct[s] for s in self.seeds]
        self._seed_of_row = torch.tensor(rows, device=self.lrs.device)
        self._all_distinct = len(distinct) == len(rows)

    def _piece(self, i: int, rows: slice, columns: slice, scratch: list[Tensor]) -> _Piece:
        param = self.params[i][rows, columns]
        spare = [s[: param.numel()].view(param.shape) for s in scratch]
        states = [s[rows, columns] for s in self.states[i]]
        return _Piece(rows, columns, param, [*states, *spare[:-1]], spare[-1], self.lrs[rows])

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Update the matrices in place."""
        self.t += 1
        scalars = self.program.scalars(self.t, self.total_steps, self.t)
        tensors = self.program.tensors(scalars, self.lrs.dtype)
        registers = [*tensors, *scalars, *self._literals]
        factor = self.plan.scale(1.0, scalars)
        if self.weight_decay:
            shrink = 1 - self.lrs * (self.weight_decay * self._schedule())
            for param in self.params:
                param.mul_(shrink)
        for i, gradient in enumerate(gradients):
            noise = self._noise(i)
            whole = len(self._pieces[i]) == 1
            for piece in self._pieces[i]:
                registers[self.program.code.gradient.index] = (
                    gradient if whole else gradient[piece.rows, piece.columns]
                )
                for value, numbers in zip(self.program.code.uniforms, noise, strict=True):
                    registers[value.index] = self._of_rows(numbers, piece)
                self.plan.run(registers, piece.buffers)
                self._finish(registers, piece, factor)
                self.plan.settle(registers, piece.buffers)

    def _schedule(self) -> float:
        if self._decay is None:
            return 1.0
        scalars = self._decay.scalars(self.t, self.total_steps, self.t)
        return float(scalars[self._decay.code.result.index])

    def _noise(self, i: int) -> list[Tensor]:
        """Return the random numbers of each random operator, one row a distinct seed."""
        columns, device = self.columns[i], self.lrs.device
        return [columns.uniforms(k, self.t, device).to(self.lrs.dtype) for k in self._keys[i]]

    def _of_rows(self, noise: Tensor, piece: _Piece) -> Tensor:
        """Return random numbers by row, without a copy where all seeds are the same, or none."""
        height = piece.param.shape[0]
        if len(noise) == 1:
            return noise[:, piece.columns].expand(height, -1)
        if self._all_distinct:
            return noise[piece.rows, piece.columns]
        return noise[self._seed_of_row[piece.rows], piece.columns]

    def _finish(self, registers: list[Any], piece: _Piece, factor: float) -> None:
        """Take the step, each row with its learning rate."""
        if self.plan.quotient is not None:
            above, below = (registers[v.index] for v in self.plan.quotient)
            update = torch.div(above, below, out=piece.last)
            piece.param.addcmul_(update, piece.lrs, value=factor)
            return
        result = registers[self.plan.result.index]
        if self.plan.result.is_scalar:
            piece.param.add_(piece.lrs * (result * factor))
        else:
            # A rule may end in a comparison, which is a boolean.
            wide = result if result.is_floating_point() else result.to(piece.param.dtype)
            piece.param.addcmul_(wide, piece.lrs, value=factor)


def _square_root(values: Tensor, *, out: Tensor) -> Tensor:
    """Return square roots to within two units in the last place.

    torch's own, on a CPU, is slow at zeros, such as the second moments of pixels that are always
    black, and slower at denormal numbers: `benchmarks/profile_evaluation.py`.
    """
    torch.rsqrt(values, out=out)
    return torch.reciprocal(out, out=out)


def _cuts(matrix: Tensor, most: int) -> list[tuple[slice, slice]]:
    """Return pieces of a matrix with at most so many elements: whole rows where they fit."""
    height, width = matrix.shape
    tall, wide = max(1, most // width), min(width, most)
    return [
        (slice(r, min(r + tall, height)), slice(c, min(c + wide, width)))
        for r in range(0, height, tall)
        for c in range(0, width, wide)
    ]
