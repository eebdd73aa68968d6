"""Execution by torch.compile: one kernel that reads and writes each number once."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule

from optsmith._errors import OptimizerError
from optsmith.optim._batch import Batch
from optsmith.optim._program import Program, element_numbers
from optsmith.optim._trace import Value
from optsmith.rules._noise import uniform

BUCKET = 16
"""Tensors in one compiled call: more make calls fewer and compilation longer."""


class FusedStep:
    """Compiled steps of one program; everything that changes from step to step is a tensor.

    Args:
        program: The program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._reads = program.reads
        # torch limits how often one code object is compiled: each program gets a copy of its own.
        self._step: Any = torch.compile(_own_copy(self._function()), fullgraph=True, dynamic=True)

    def _function(self) -> Callable[..., None]:
        # As a graph, the program has no Python objects that torch would have to look at each time.
        update_of = _graph(self.program)
        random, slots = self.program.is_random, len(self.program.slots)

        def step(
            params: list[Tensor],
            gradients: list[Tensor],
            states: list[Tensor],
            scalars: Tensor,
            keys: Tensor,
        ) -> None:
            lr, *numbers = scalars.unbind()
            t, *streams = keys[0, 0], *keys[1:].unbind()
            for i, (p, g) in enumerate(zip(params, gradients, strict=True)):
                wide = g.to(lr.dtype)
                state = states[i * slots : (i + 1) * slots]
                noise = []
                if random:
                    elements = element_numbers(g)
                    noise = [uniform(k, t, elements).to(lr.dtype) for k in streams[i].unbind()]
                update, *new = update_of(wide, *state, *numbers, *noise)
                p.copy_(p.to(lr.dtype) - lr * update)
                for old, slot in zip(state, new, strict=True):
                    old.copy_(slot)

        return step

    def step(self, batch: Batch) -> None:
        """Update parameters and their states in place: contiguous ones of more than one number.

        (torch would compile a size of 1 into the code.)
        """
        numbers = [batch.lr, *(batch.scalars[v] for v in self._reads)]
        scalars = torch.tensor(numbers, dtype=batch.dtype)
        for start in range(0, len(batch.params), BUCKET):
            part = batch.only(range(start, min(start + BUCKET, len(batch.params))))
            width = max(1, len(self.program.code.uniforms))
            keys = torch.tensor([[batch.t] * width, *(k or [0] for k in part.keys)])
            arguments = (
                [_flat(p) for p in part.params],
                [_flat(g) for g in part.gradients],
                [_flat(s) for state in part.states for s in state],
                scalars,
                keys,
            )
            try:
                self._step(*arguments)
            except torch._dynamo.exc.Unsupported as error:
                reason = str(error).partition("\n")[0]
                raise OptimizerError(
                    f"an operator of {self.program.rule} cannot be compiled ({reason}):"
                    " leave compile out"
                ) from error


def _flat(tensor: Tensor) -> Tensor:
    return tensor if tensor.ndim == 1 else tensor.view(-1)


def _graph(program: Program) -> GraphModule:
    """Return the program's update as a torch graph: gradient, state, scalars, random numbers in."""
    code, graph = program.code, Graph()
    inputs = [code.gradient, *(slot.before for slot in code.slots)]
    inputs += [Value(index, True) for index in program.reads]
    nodes = {value: graph.placeholder(f"v{value.index}") for value in [*inputs, *code.uniforms]}

    def node(argument: Any) -> Any:
        return nodes[argument] if isinstance(argument, Value) else argument

    for i in code.body:
        kwargs = {name: node(a) for name, a in i.kwargs}
        nodes[i.out] = graph.call_function(i.function, tuple(map(node, i.args)), kwargs)
    graph.output((nodes[code.result], *(nodes[slot.after] for slot in code.slots)))
    return GraphModule({}, graph)


def _own_copy(function: Any) -> Any:
    return FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
