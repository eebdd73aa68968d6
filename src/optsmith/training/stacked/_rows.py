"""The stack back end: one rule on copies of a model, each with its own learning rate and seed.

A program of scope "element" needs no loop over the copies: the same instructions run on all of them
at once, in pieces that stay in the cache, and only the last one knows the learning rates. Where
operators need whole tensors, a piece is one parameter of all copies, in its own shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from optsmith.optim import Backend, Plan, PlanRunner, Program, Step
from optsmith.rules import Rule, over_copies
from optsmith.training.stacked._columns import Columns, Shape

PIECE = 1 << 18
"""Elements worked on at a time: fewer make more calls, more leave the cache."""


@dataclass(slots=True)
class _Block:
    """What has state of its own: a matrix, or one of its parameters in a shape of its own."""

    matrix: int
    columns: slice
    shape: Shape
    state: list[Tensor]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some copies, and some columns of them, that are worked on together."""

    rows: slice
    columns: slice
    is_matrix: bool
    param: Tensor
    buffers: list[Tensor]
    last: Tensor
    lrs: Tensor


class RowOptimizer(Backend[Sequence[Tensor]]):
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

    title = "a stack of copies"
    advice = "train one run at a time"
    precisions = frozenset({torch.float32, torch.float64})

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
        self.check(self.program, params)
        self.plan = Plan(self.program)
        on_cpu = params[0].device.type == "cpu"
        self.plan.steps = [
            replace(step, function=_function(step, on_cpu)) for step in self.plan.steps
        ]
        self._runner = PlanRunner(self.program, self.plan)
        self.columns, self.seeds, self.total_steps = list(columns), list(seeds), total_steps
        self.weight_decay, self._decay = weight_decay, Program(decay) if decay else None
        self.lrs = params[0].new_tensor(list(lrs)).view(-1, 1)
        self.t = 0
        self._blocks = [
            self._block(i, p, part, shape)
            for i, p in enumerate(params)
            for part, shape in self._parts(i)
        ]
        self._attach(params)

    def _parts(self, i: int) -> list[tuple[slice, Shape]]:
        """Return what of a matrix is worked on separately."""
        columns = self.columns[i]
        if self.program.scope == "tensor":
            return columns.parts()
        return [(slice(0, len(columns)), (len(columns),))]

    def _block(self, i: int, param: Tensor, columns: slice, shape: Shape) -> _Block:
        state = self.program.init(_view(param, columns, shape), copies=True)
        return _Block(i, columns, shape, list(state))

    def state_bytes(self) -> float:
        """Return the bytes of state per parameter; as in `optim.state_bytes`, no single numbers."""
        total = sum(map(len, self.columns))
        if self.program.scope == "tensor":
            states = [s for block in self._blocks for s in block.state if s.ndim > 1]
            return sum(s.nbytes for s in states) / (len(self.lrs) * total)
        tensors = sum(torch.Size(s).numel() for c in self.columns for s in c.shapes if s)
        return len(self.program.slots) * self.lrs.element_size() * tensors / total

    def keep(self, rows: Sequence[int], params: Sequence[Tensor]) -> None:
        """Go on with some rows alone, which are now the rows of `params`."""
        index = torch.tensor(list(rows), device=self.lrs.device)
        self.lrs = self.lrs[index]
        self.seeds = [self.seeds[i] for i in rows]
        for block in self._blocks:
            block.state = [s[index] for s in block.state]
        self._attach(params)

    def _attach(self, params: Sequence[Tensor]) -> None:
        """Cut everything but the gradients into pieces, once: each view costs a call."""
        self.params = list(params)
        largest = max(p.numel() for p in params)
        # On a GPU calls cost, not memory traffic; whole tensors are not cut.
        cut = self.lrs.device.type == "cpu" and self.program.scope == "element"
        most = min(PIECE, largest) if cut else largest
        scratch = [self.lrs.new_empty(most) for _ in range(self.plan.scratch + 1)]
        self._pieces: list[list[_Piece]] = [[] for _ in params]
        for block in self._blocks:
            self._pieces[block.matrix] += self._pieces_of(block, most, scratch)
        distinct = {seed: j for j, seed in enumerate(dict.fromkeys(self.seeds))}
        nodes = range(len(self.program.code.uniforms))
        self._keys = [[c.keys(list(distinct), node) for node in nodes] for c in self.columns]
        rows = [distinct[s] for s in self.seeds]
        self._seed_of_row = torch.tensor(rows, device=self.lrs.device)
        self._all_distinct = len(distinct) == len(rows)

    def _pieces_of(self, block: _Block, most: int, scratch: list[Tensor]) -> list[_Piece]:
        whole = _view(self.params[block.matrix], block.columns, block.shape)
        if self.program.scope == "tensor":
            rows = slice(0, len(whole))
            lrs = self.lrs.view(-1, *[1] * len(block.shape))
            return [_piece(rows, block.columns, False, whole, block.state, scratch, lrs)]
        return [
            _piece(
                rows,
                columns,
                True,
                whole[rows, columns],
                [s[rows, columns] for s in block.state],
                scratch,
                self.lrs[rows],
            )
            for rows, columns in _cuts(whole, most)
        ]

    @torch.no_grad()
    def step(self, given: Sequence[Tensor]) -> None:
        """Update the matrices in place, with the gradients that are given."""
        self.t += 1
        scalars = self.program.scalars(self.t, self.total_steps, self.t)
        registers = self._runner.registers(scalars, self.lrs.dtype)
        factor = self.plan.scale(1.0, scalars)
        if self.weight_decay:
            shrink = 1 - self.lrs * (self.weight_decay * self._schedule())
            for param in self.params:
                param.mul_(shrink)
        for i, gradient in enumerate(given):
            noise = self._noise(i)
            for piece in self._pieces[i]:
                part = gradient
                if len(self._pieces[i]) > 1 or not piece.is_matrix:
                    part = _shaped(gradient[piece.rows, piece.columns], piece)
                numbers = [self._of_rows(u, piece) for u in noise]
                self._runner.run(
                    registers,
                    piece.param,
                    part,
                    piece.buffers,
                    numbers,
                    factor,
                    piece.lrs,
                    piece.last,
                )

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
        if len(noise) == 1:
            numbers = noise[:, piece.columns].expand(piece.param.shape[0], -1)
        elif self._all_distinct:
            numbers = noise[piece.rows, piece.columns]
        else:
            numbers = noise[self._seed_of_row[piece.rows], piece.columns]
        return _shaped(numbers, piece)


def _function(step: Step, on_cpu: bool) -> Callable[..., Any]:
    """Return what carries out a step on a stack."""
    if step.scope == "tensor":
        return over_copies(step.function)
    if step.name == "sqrt" and on_cpu:
        return _square_root
    return step.function


def _square_root(values: Tensor, *, out: Tensor) -> Tensor:
    """Return square roots to within two units in the last place.

    torch's own, on a CPU, is slow at zeros, such as the second moments of pixels that are always
    black, and slower at denormal numbers: `benchmarks/profile_evaluation.py`.
    """
    torch.rsqrt(values, out=out)
    return torch.reciprocal(out, out=out)


def _view(matrix: Tensor, columns: slice, shape: Shape) -> Tensor:
    """Return some columns of a matrix as one tensor of this shape for each row."""
    return matrix[:, columns].view(len(matrix), *shape)


def _shaped(values: Tensor, piece: _Piece) -> Tensor:
    """Return rows in the shape of the piece's parameter."""
    return values if piece.is_matrix else values.reshape(piece.param.shape)


def _piece(
    rows: slice,
    columns: slice,
    is_matrix: bool,
    param: Tensor,
    state: list[Tensor],
    scratch: list[Tensor],
    lrs: Tensor,
) -> _Piece:
    spare = [s[: param.numel()].view(param.shape) for s in scratch]
    return _Piece(rows, columns, is_matrix, param, [*state, *spare[:-1]], spare[-1], lrs)


def _cuts(matrix: Tensor, most: int) -> list[tuple[slice, slice]]:
    """Return pieces of a matrix with at most so many elements: whole rows where they fit."""
    height, width = matrix.shape
    tall, wide = max(1, most // width), min(width, most)
    return [
        (slice(r, min(r + tall, height)), slice(c, min(c + wide, width)))
        for r in range(0, height, tall)
        for c in range(0, width, wide)
    ]
