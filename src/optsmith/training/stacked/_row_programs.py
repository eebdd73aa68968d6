"""One program on the rows of matrices: element by element, or on whole tensors.

Element-wise programs run every instruction on all copies at once, in pieces that fit the CPU cache;
only the last instruction uses the learning rates. Functions of whole tensors receive parameters in
their original shapes, all copies and all parameters of one shape together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from optsmith.optim import Plan, PlanRunner, Program, Step, addcmul
from optsmith.rules import OverCopies
from optsmith.training.stacked._columns import Columns, Shape

PIECE = 1 << 18
"""Elements per piece: fewer need more calls, more exceed the cache."""

Noise = Callable[[int], list[Tensor]]
"""Returns the random numbers of a matrix, one row per copy, for each random operator."""


@dataclass(frozen=True, slots=True)
class Span:
    """The columns of one or more parameters in a matrix."""

    matrix: int
    columns: slice
    shape: Shape


class RowProgram(ABC):
    """Runs a program on some columns of all matrices: `row -= lr * rule(gradient of the row)`.

    Args:
        program: The program; its scalars may vary between rows.
        params: The matrices.
        lrs: Learning rate of each row, as a column.
    """

    def __init__(self, program: Program, params: Sequence[Tensor], lrs: Tensor) -> None:
        self.program, self.params, self.lrs = program, list(params), lrs
        self.plan = Plan(program)
        on_cpu = lrs.device.type == "cpu"
        self.plan.steps = [self._prepared(step, on_cpu) for step in self.plan.steps]
        self.runner = PlanRunner(program, self.plan)

    def _prepared(self, step: Step, on_cpu: bool) -> Step:
        """Return a step with the function that executes it on a stack."""
        if step.scope == "tensor":
            return replace(step, function=OverCopies(step.function))
        if self.program.varies:
            # A scalar that is a vector cannot be passed as a number.
            args = tuple(map(self._as_tensor, step.args))
            kwargs = tuple((name, self._as_tensor(i)) for name, i in step.kwargs)
            step = replace(step, args=args, kwargs=kwargs)
            if step.name in _ON_VECTORS:
                return replace(step, function=_ON_VECTORS[step.name])
        if step.name == "sqrt" and on_cpu:
            return replace(step, function=_square_root)
        return step

    def _as_tensor(self, register: int) -> int:
        size = self.plan.size
        is_number = size <= register < 2 * size
        return (
            register - size if is_number and self.program.is_vector(register - size) else register
        )

    @abstractmethod
    def take(self, other: RowProgram, index: Tensor) -> None:
        """Take the state of some rows of another instance, which are the rows of this one."""

    @abstractmethod
    def step(self, t: int, total: int, given: Sequence[Tensor], noise: Noise) -> None:
        """Update the matrices and the state from the gradients `given`."""

    @abstractmethod
    def state_bytes(self) -> float:
        """Return the bytes of state of one copy, without state that is a single number."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows and columns of a matrix that are updated together."""

    matrix: int
    rows: slice
    columns: slice
    param: Tensor
    buffers: list[Tensor]
    last: Tensor
    lrs: Tensor


class ElementRows(RowProgram):
    """A program of scope "element".

    Args:
        program: The program.
        params: The matrices.
        lrs: Learning rate of each row, as a column.
        places: The columns to update.
        columns: The layout of each matrix.
    """

    def __init__(
        self,
        program: Program,
        params: Sequence[Tensor],
        lrs: Tensor,
        places: Sequence[Span],
        columns: Sequence[Columns],
    ) -> None:
        super().__init__(program, params, lrs)
        self._places, self._columns = list(places), columns
        self._state = [program.init(params[p.matrix][:, p.columns], copies=True) for p in places]
        self._attach()

    def take(self, other: RowProgram, index: Tensor) -> None:
        """Take the state of some rows of another instance, which are the rows of this one."""
        assert isinstance(other, ElementRows)  # noqa: S101 - rules of one skeleton
        self._state = [tuple(s[index] for s in state) for state in other._state]
        self._attach()

    def _attach(self) -> None:
        """Create all views of the pieces except those of gradients, to save calls per step."""
        views = [self.params[p.matrix][:, p.columns] for p in self._places]
        largest = max((v.numel() for v in views), default=0)
        most = min(PIECE, largest) if self.lrs.device.type == "cpu" else largest
        scratch = [self.lrs.new_empty(most) for _ in range(self.plan.scratch + 1)]
        self._pieces = []
        for place, view, state in zip(self._places, views, self._state, strict=True):
            for rows, columns in _cuts(view, most):
                param = view[rows, columns]
                spare = [s[: param.numel()].view(param.shape) for s in scratch]
                first = place.columns.start
                whole = slice(first + columns.start, first + columns.stop)
                buffers = [*(s[rows, columns] for s in state), *spare[:-1]]
                lrs = self.lrs[rows]
                self._pieces.append(
                    _Piece(place.matrix, rows, whole, param, buffers, spare[-1], lrs)
                )

    def step(self, t: int, total: int, given: Sequence[Tensor], noise: Noise) -> None:
        """Update the matrices and the state from the gradients `given`."""
        scalars = self.program.scalars(t, total, t)
        shared: dict[Any, tuple[list[Any], Any]] = {}
        random: dict[int, list[Tensor]] = {}
        for piece in self._pieces:
            key = (piece.rows.start, piece.rows.stop) if self.program.varies else None
            if key not in shared:
                of_rows = self.program.rows(scalars, piece.rows) if key else scalars
                registers = self.runner.registers(of_rows, self.lrs.dtype, dims=1)
                shared[key] = registers, self.plan.scale(1.0, of_rows)
            registers, factor = shared[key]
            if piece.matrix not in random:
                random[piece.matrix] = noise(piece.matrix)
            gradient = given[piece.matrix]
            self.runner.run(
                registers,
                piece.param,
                gradient
                if piece.param.shape == gradient.shape
                else gradient[piece.rows, piece.columns],
                piece.buffers,
                [u[piece.rows, piece.columns] for u in random[piece.matrix]],
                *_rates(factor, piece.lrs, 1),
                piece.last,
            )

    def state_bytes(self) -> float:
        """Return the bytes of state of one copy, without state that is a single number."""
        chosen = {(p.matrix, i) for p in self._places for i in _inside(p, self._columns[p.matrix])}
        shapes = (self._columns[m].shapes[i] for m, i in chosen)
        elements = sum(torch.Size(shape).numel() for shape in shapes if shape)
        return len(self.program.slots) * self.lrs.element_size() * elements


@dataclass(slots=True)
class _Alike:
    """Parameters of one shape, with their state: the copies of the first, then of the next."""

    places: list[Span]
    state: list[Tensor]


class TensorRows(RowProgram):
    """A program of scope "tensor".

    Args:
        program: The program.
        params: The matrices.
        lrs: Learning rate of each row, as a column.
        places: The columns of each parameter to update.
    """

    def __init__(
        self, program: Program, params: Sequence[Tensor], lrs: Tensor, places: Sequence[Span]
    ) -> None:
        super().__init__(program, params, lrs)
        by_shape: dict[Shape, list[Span]] = {}
        for place in places:
            by_shape.setdefault(place.shape, []).append(place)
        self._groups = [self._group(alike) for alike in by_shape.values()]

    def _group(self, places: list[Span]) -> _Alike:
        like = self.params[0].new_zeros(len(places) * len(self.lrs), *places[0].shape)
        return _Alike(places, list(self.program.init(like, copies=True)))

    def take(self, other: RowProgram, index: Tensor) -> None:
        """Take the state of some rows of another instance, which are the rows of this one."""
        assert isinstance(other, TensorRows)  # noqa: S101 - rules of one skeleton
        before = len(other.lrs)
        for group, old in zip(self._groups, other._groups, strict=True):
            group.state = [
                s.view(len(old.places), before, *s.shape[1:])[:, index].flatten(0, 1)
                for s in old.state
            ]

    def step(self, t: int, total: int, given: Sequence[Tensor], noise: Noise) -> None:
        """Update the matrices and the state from the gradients `given`."""
        scalars = self.program.scalars(t, total, t)
        random: dict[int, list[Tensor]] = {}
        for group in self._groups:
            for place in group.places:
                if self.program.is_random and place.matrix not in random:
                    random[place.matrix] = noise(place.matrix)
            self._step(group, scalars, given, random)

    def _step(
        self,
        group: _Alike,
        scalars: list[Any],
        given: Sequence[Tensor],
        random: dict[int, list[Tensor]],
    ) -> None:
        places, dims, count = group.places, len(group.places[0].shape), len(group.places)
        repeated = [x.repeat(count) if isinstance(x, Tensor) else x for x in scalars]
        param = _gathered(self.params, places)
        gradient = _gathered(given, places)
        uniforms = [
            _gathered({m: numbers[node] for m, numbers in random.items()}, places)
            for node in range(len(self.program.code.uniforms))
        ]
        scratch = [torch.empty_like(gradient) for _ in range(self.plan.scratch + 1)]
        lrs = self.lrs.repeat(count, 1).view(-1, *[1] * dims)
        self.runner.run(
            self.runner.registers(repeated, self.lrs.dtype, dims),
            param,
            gradient,
            [*group.state, *scratch[:-1]],
            uniforms,
            *_rates(self.plan.scale(1.0, repeated), lrs, dims),
            scratch[-1],
        )
        if count > 1:  # a copy of the parameters, not a view
            for place, part in zip(places, param.view(count, len(self.lrs), -1), strict=True):
                self.params[place.matrix][:, place.columns] = part

    def state_bytes(self) -> float:
        """Return the bytes of state of one copy, without state that is a single number."""
        states = [s for group in self._groups for s in group.state if s.ndim > 1]
        return sum(s.nbytes for s in states) / len(self.lrs)


def _gathered(matrices: Any, places: Sequence[Span]) -> Tensor:
    """Return the columns of parameters of one shape, parameter after parameter with all copies.

    It is a view if there is one parameter.
    """
    parts = [matrices[p.matrix][:, p.columns].unflatten(1, p.shape or (1,)) for p in places]
    whole = parts[0] if len(parts) == 1 else torch.cat(parts)
    return whole if places[0].shape else whole.squeeze(1)


def _rates(factor: Any, lrs: Tensor, dims: int) -> tuple[float, Tensor]:
    """Return the factor of the update as a number, and the learning rates with the rest of it."""
    if isinstance(factor, Tensor):
        return 1.0, lrs * factor.to(lrs.dtype).view(-1, *[1] * dims)
    return float(factor), lrs


def _inside(place: Span, columns: Columns) -> list[int]:
    """Return the indices of the parameters of a place."""
    parts = enumerate(columns.parts())
    return [
        i
        for i, (part, _) in parts
        if place.columns.start <= part.start and part.stop <= place.columns.stop
    ]


def _square_root(values: Tensor, *, out: Tensor) -> Tensor:
    """Return square roots with an error of at most two units in the last place.

    On a CPU, torch.sqrt is slow for zeros, such as the second moments of pixels that are always
    black, and slower for denormal numbers: see `benchmarks/profile_evaluation.py`.
    """
    torch.rsqrt(values, out=out)
    return torch.reciprocal(out, out=out)


def _clamp(
    x: Tensor, low: Any = None, high: Any = None, *, out: Tensor, min: Any = None, max: Any = None
) -> Tensor:
    """Return torch.clamp for bounds that are numbers or vectors."""
    low, high = (
        None if b is None else torch.as_tensor(b, dtype=x.dtype, device=x.device)
        for b in (min if low is None else low, max if high is None else high)
    )
    return torch.clamp(x, low, high, out=out)


_ON_VECTORS: dict[str, Callable[..., Any]] = {"addcmul": addcmul, "clamp": _clamp}
"""Functions for scalars that are vectors, where torch's accept numbers only."""


def _cuts(matrix: Tensor, most: int) -> list[tuple[slice, slice]]:
    """Return pieces of a matrix with at most `most` elements, of whole rows if they fit."""
    height, width = matrix.shape
    if not matrix.numel():
        return []
    tall, wide = max(1, most // width), min(width, most)
    return [
        (slice(r, min(r + tall, height)), slice(c, min(c + wide, width)))
        for r in range(0, height, tall)
        for c in range(0, width, wide)
    ]
