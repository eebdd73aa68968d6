"""Execution by compiled kernels that read and write each number once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule

from optsmith._errors import OptimizerError
from optsmith.optim._batch import Batch
from optsmith.optim._kernel import Kernel, compiled
from optsmith.optim._program import Program, element_numbers
from optsmith.optim._trace import Value
from optsmith.rules._noise import uniform

BUCKET = 8
"""Tensors in one call of a kernel: more make calls fewer and compilation longer."""


class FusedStep:
    """Compiled steps of one program; everything that changes from step to step is a tensor.

    Args:
        program: The program.
        small: Tensors of up to this many elements get kernels without threads.
    """

    def __init__(self, program: Program, small: int) -> None:
        self.program = program
        self.small = small
        self.kernels: dict[Any, Kernel] = {}
        self._reads = program.reads

    def step(self, batch: Batch) -> None:
        """Update parameters and their states in place: contiguous ones of more than one number.

        (torch would compile a size of 1 into the code.)
        """
        numbers = [batch.lr, *(batch.scalars[v] for v in self._reads)]
        scalars = torch.tensor(numbers, dtype=batch.dtype)
        for part, is_small in self._buckets(batch):
            tensors = [scalars]
            if self.program.is_random:
                width = len(self.program.code.uniforms)
                tensors.append(torch.tensor([[batch.t] * width, *part.keys]))
            tensors += map(_flat, part.params)
            tensors += map(_flat, part.gradients)
            for state in part.states:
                tensors += map(_flat, state)
            self._kernel(part, is_small)(*tensors)

    def _buckets(self, batch: Batch) -> Iterator[tuple[Batch, bool]]:
        small, large = batch.split([p.numel() <= self.small for p in batch.params])
        for half in (small, large):
            count = len(half.params)
            if 0 < count <= BUCKET:
                yield half, half is small
                continue
            for start in range(0, count, BUCKET):
                yield half.only(range(start, min(start + BUCKET, count))), half is small

    def _kernel(self, batch: Batch, is_small: bool) -> Kernel:
        first = batch.params[0]
        key = (len(batch.params), is_small, first.dtype, first.device)
        kernel = self.kernels.get(key)
        if kernel is None:
            try:
                kernel = self._compile(batch, is_small)
            except Exception as error:  # whatever an operator of the user's does in tracing
                reason = str(error).partition("\n")[0]
                raise OptimizerError(
                    f"an operator of {self.program.rule} cannot be compiled ({reason}):"
                    " leave compile out"
                ) from error
            self.kernels[key] = kernel
        return kernel

    def _compile(self, batch: Batch, is_small: bool) -> Kernel:
        """Compile for as many tensors as in the batch, of any sizes."""
        slots, count = len(self.program.slots), len(batch.params)
        # No two of one size: sizes that are equal in the examples would have to be in every call.
        sizes = [(64 if is_small else 4 * self.small) + 8 * i for i in range(count)]
        wide = [torch.empty(n, dtype=batch.dtype, device=batch.params[0].device) for n in sizes]
        examples = [torch.zeros(1 + len(self._reads), dtype=batch.dtype)]
        if self.program.is_random:
            width = len(self.program.code.uniforms)
            examples.append(torch.zeros(1 + count, width, dtype=torch.int64))
        examples += [torch.empty_like(w, dtype=batch.params[0].dtype) for w in wide]
        examples += wide
        examples += [torch.empty_like(w) for w in wide for _ in range(slots)]
        return compiled(self._function(count), examples, threads=1 if is_small else None)

    def _function(self, count: int) -> Kernel:
        update_of = _graph(self.program)
        random, slots = self.program.is_random, len(self.program.slots)

        def step(scalars: Tensor, *tensors: Tensor) -> None:
            lr, *numbers = scalars.unbind()
            if random:
                (t, *_), *streams = (row.unbind() for row in tensors[0].unbind())
                tensors = tensors[1:]
            params, gradients, states = (
                tensors[:count],
                tensors[count : 2 * count],
                tensors[2 * count :],
            )
            for i, (p, g) in enumerate(zip(params, gradients, strict=True)):
                state = states[i * slots : (i + 1) * slots]
                noise = []
                if random:
                    elements = element_numbers(g)
                    noise = [uniform(key, t, elements).to(lr.dtype) for key in streams[i]]
                update, *new = update_of(g, *state, *numbers, *noise)
                p.copy_(p.to(lr.dtype) - lr * update)
                for old, slot in zip(state, new, strict=True):
                    old.copy_(slot)

        return step


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
