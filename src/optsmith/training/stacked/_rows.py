"""The stack back end: applies one rule to copies of a model with separate learning rates and seeds.

Programs of scope "element" run every instruction on all copies at once, in pieces that fit the CPU
cache; only the last instruction uses the learning rates. For operators that need whole tensors, a
piece is one parameter of all copies in its original shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from optsmith.optim import Backend, Plan, PlanRunner, Program, Step
from optsmith.rules import OverCopies, Rule
from optsmith.training.stacked._columns import Columns, Shape

PIECE = 1 << 18
"""Elements per piece: fewer need more calls, more exceed the cache."""


@dataclass(slots=True)
class _Block:
    """A unit of optimizer state: a matrix, or one of its parameters in its original shape."""

    matrix: int
    columns: slice
    shape: Shape
    state: list[Tensor]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows and columns of a block that are updated together."""

    rows: slice
    columns: slice
    is_matrix: bool
    param: Tensor
    buffers: list[Tensor]
    last: Tensor
    lrs: Tensor


class RowOptimizer(Backend[Sequence[Tensor]]):
    """Updates rows of matrices with one rule: `row -= lr * rule(gradient of the row)`.

    Each row is updated as by a separate optimizer, up to rounding. Non-finite values in one row
    never affect another.

    Args:
        rule: The rule.
        params: The matrices, which may be views of rows of larger matrices.
        columns: The layout of each matrix.
        lrs: Learning rate of each row.
        seeds: Seed of each row, for `drop` masks.
        total_steps: Length of the run.
        weight_decay: Decoupled weight decay, as in AdamW.
        decay: Schedule of the weight decay, as a rule that depends only on the step.
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
        """Return the columns and shape of each block of a matrix."""
        columns = self.columns[i]
        if self.program.scope == "tensor":
            return columns.parts()
        return [(slice(0, len(columns)), (len(columns),))]

    def _block(self, i: int, param: Tensor, columns: slice, shape: Shape) -> _Block:
        state = self.program.init(_view(param, columns, shape), copies=True)
        return _Block(i, columns, shape, list(state))

    def state_bytes(self) -> float:
        """Return bytes of state per parameter, without 0-dim state, as in `optim.state_bytes`."""
        total = sum(map(len, self.columns))
        if self.program.scope == "tensor":
            states = [s for block in self._blocks for s in block.state if s.ndim > 1]
            return sum(s.nbytes for s in states) / (len(self.lrs) * total)
        tensors = sum(torch.Size(s).numel() for c in self.columns for s in c.shapes if s)
        return len(self.program.slots) * self.lrs.element_size() * tensors / total

    def keep(self, rows: Sequence[int], params: Sequence[Tensor]) -> None:
        """Remove all rows except these, which are now the rows of `params`."""
        index = torch.tensor(list(rows), device=self.lrs.device)
        self.lrs = self.lrs[index]
        self.seeds = [self.seeds[i] for i in rows]
        for block in self._blocks:
            block.state = [s[index] for s in block.state]
        self._attach(params)

    def _attach(self, params: Sequence[Tensor]) -> None:
        """Create all views of the pieces except those of gradients, to save calls per step."""
        self.params = list(params)
        largest = max(p.numel() for p in params)
        # On a GPU calls dominate, and operators of scope "tensor" need whole tensors.
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
        """Update the matrices in place from their gradients."""
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
        """Return the random numbers of each random operator, one row per distinct seed."""
        columns, device = self.columns[i], self.lrs.device
        return [columns.uniforms(k, self.t, device).to(self.lrs.dtype) for k in self._keys[i]]

    def _of_rows(self, noise: Tensor, piece: _Piece) -> Tensor:
        """Return one row of random numbers per copy; a view if all seeds are equal or distinct."""
        if len(noise) == 1:
            numbers = noise[:, piece.columns].expand(piece.param.shape[0], -1)
        elif self._all_distinct:
            numbers = noise[piece.rows, piece.columns]
        else:
            numbers = noise[self._seed_of_row[piece.rows], piece.columns]
        return _shaped(numbers, piece)


def _function(step: Step, on_cpu: bool) -> Callable[..., Any]:
    """Return the function that executes an instruction on a stack."""
    if step.scope == "tensor":
        return OverCopies(step.function)
    if step.name == "sqrt" and on_cpu:
        return _square_root
    return step.function


def _square_root(values: Tensor, *, out: Tensor) -> Tensor:
    """Return square roots with an error of at most two units in the last place.

    On a CPU, torch.sqrt is slow for zeros, such as the second moments of pixels that are always
    black, and slower for denormal numbers: see `benchmarks/profile_evaluation.py`.
    """
    torch.rsqrt(values, out=out)
    return torch.reciprocal(out, out=out)


def _view(matrix: Tensor, columns: slice, shape: Shape) -> Tensor:
    """Return columns of a matrix as a tensor of this shape per row."""
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
    """Return pieces of a matrix with at most `most` elements, of whole rows if they fit."""
    height, width = matrix.shape
    tall, wide = max(1, most // width), min(width, most)
    return [
        (slice(r, min(r + tall, height)), slice(c, min(c + wide, width)))
        for r in range(0, height, tall)
        for c in range(0, width, wide)
    ]
