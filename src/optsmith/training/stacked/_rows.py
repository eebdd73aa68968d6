"""The stack back end: rules of one skeleton on copies of a model, one row per copy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

import torch
from torch import Tensor

from optsmith.optim import Backend, Program
from optsmith.rules import Rule, depends_on_role, for_role
from optsmith.training.stacked._columns import Columns
from optsmith.training.stacked._row_programs import ElementRows, RowProgram, Span, TensorRows


class RowOptimizer(Backend[Sequence[Tensor]]):
    """Updates rows of matrices: `row -= lr * rule(gradient of the row)`.

    Each row is updated as by a separate optimizer, up to rounding. Non-finite values in one row
    never affect another.

    Args:
        rules: The rule, or one rule per row; these differ in constants only (`rules.skeleton`).
        params: The matrices, which may be views of rows of larger matrices.
        columns: The layout of each matrix.
        lrs: Learning rate of each row.
        seeds: Seed of each row, for `drop` masks.
        total_steps: Length of the run.
        hidden: The indices of parameters that are hidden matrices, for rules that depend on roles.
    """

    title = "a stack of copies"
    advice = "train one run at a time"
    precisions = frozenset({torch.float32, torch.float64})

    def __init__(
        self,
        rules: Rule | Sequence[Rule],
        params: Sequence[Tensor],
        columns: Sequence[Columns],
        lrs: Sequence[float],
        seeds: Sequence[int],
        total_steps: int,
        hidden: frozenset[int] = frozenset(),
    ) -> None:
        self._rules = [rules] * len(lrs) if isinstance(rules, Rule) else list(rules)
        self.columns, self.seeds, self.total_steps = list(columns), list(seeds), total_steps
        self.params = list(params)
        self.lrs = params[0].new_tensor(list(lrs)).view(-1, 1)
        self.t = 0
        self._hidden = hidden
        self._programs = self._make()
        self._set_seeds()

    def _make(self) -> list[tuple[RowProgram, int]]:
        """Return the programs with their numbers of random operators, one for each role."""
        by_role = depends_on_role(self._rules[0])
        made: list[tuple[RowProgram, int]] = []
        for is_hidden in (True, False) if by_role else (False,):
            rules = [for_role(rule, is_hidden) for rule in self._rules]
            program = Program(rules[0], rules)
            self.check(program, self.params)
            wanted = [
                [not by_role or (i in self._hidden) == is_hidden for i in c.parameters]
                for c in self.columns
            ]
            places = [
                p for m, chosen in enumerate(wanted) for p in self._places(m, chosen, program)
            ]
            if not places:
                continue
            count = len(program.code.uniforms)
            if program.scope == "tensor":
                made.append((TensorRows(program, self.params, self.lrs, places), count))
            else:
                element = ElementRows(program, self.params, self.lrs, places, self.columns)
                made.append((element, count))
        return made

    def _places(self, matrix: int, chosen: Sequence[bool], program: Program) -> list[Span]:
        """Return the chosen parameters of a matrix; for element-wise programs, joined."""
        parts = self.columns[matrix].parts()
        if program.scope == "tensor":
            pairs = zip(parts, chosen, strict=True)
            return [Span(matrix, part, shape) for (part, shape), is_chosen in pairs if is_chosen]
        places = []
        for is_chosen, group in groupby(zip(parts, chosen, strict=True), key=lambda x: x[1]):
            joined = [part for (part, _), _ in group]
            span = slice(joined[0].start, joined[-1].stop)
            if is_chosen:
                places.append(Span(matrix, span, (span.stop - span.start,)))
        return places

    def state_bytes(self) -> float:
        """Return bytes of state per parameter, without 0-dim state, as in `optim.state_bytes`."""
        total = sum(map(len, self.columns))
        return sum(program.state_bytes() for program, _ in self._programs) / total

    def keep(self, rows: Sequence[int], params: Sequence[Tensor]) -> None:
        """Remove all rows except these, which are now the rows of `params`."""
        index = torch.tensor(list(rows), device=self.lrs.device)
        self.params, self.lrs = list(params), self.lrs[index]
        self.seeds = [self.seeds[i] for i in rows]
        self._rules = [self._rules[i] for i in rows]
        before, self._programs = self._programs, self._make()
        for (now, _), (old, _) in zip(self._programs, before, strict=True):
            now.take(old, index)
        self._set_seeds()

    def _set_seeds(self) -> None:
        distinct = {seed: j for j, seed in enumerate(dict.fromkeys(self.seeds))}
        self._distinct = list(distinct)
        self._seed_of_row = torch.tensor([distinct[s] for s in self.seeds], device=self.lrs.device)

    @torch.no_grad()
    def step(self, given: Sequence[Tensor]) -> None:
        """Update the matrices in place from their gradients."""
        self.t += 1
        for program, count in self._programs:
            program.step(self.t, self.total_steps, given, partial(self._noise, count))

    def _noise(self, count: int, i: int) -> list[Tensor]:
        """Return the random numbers of each random operator, one row per copy."""
        columns, device = self.columns[i], self.lrs.device
        numbers = []
        for node in range(count):
            keys = columns.keys(self._distinct, node)
            of_seeds = columns.uniforms(keys, self.t, device).to(self.lrs.dtype)
            numbers.append(self._of_rows(of_seeds))
        return numbers

    def _of_rows(self, numbers: Tensor) -> Tensor:
        """Return one row of random numbers per copy; a view if all seeds are equal or distinct."""
        if len(self._distinct) == 1:
            return numbers.expand(len(self.lrs), -1)
        return numbers if len(self._distinct) == len(self.lrs) else numbers[self._seed_of_row]
