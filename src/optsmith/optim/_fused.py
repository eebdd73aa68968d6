"""Back end with compiled kernels, which read and write each element once."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule
from torch.nn import Parameter

from optsmith._errors import OptimizerError
from optsmith._torch import Kernel, compiled
from optsmith.optim._backend import Backend
from optsmith.optim._batch import Batch
from optsmith.optim._code import Value
from optsmith.optim._plan import addcmul
from optsmith.optim._program import Program, element_numbers
from optsmith.rules import skeleton, uniform

BUCKET = 8
"""Maximum number of tensors per kernel call; a larger one means fewer calls, slower compilation."""

MOST_KERNELS = 256
"""Maximum number of kernels that are kept for other optimizers."""

_kernels: OrderedDict[Any, Kernel] = OrderedDict()
"""Kernels by skeleton of the rule, in order of use: rules that differ in constants share them."""

_PLAIN = (Tensor, Parameter)
_CONTIGUOUS = Tensor.is_contiguous


class FusedStep(Backend[Batch]):
    """Runs a program with compiled kernels; all values that change per step are tensors.

    Constants of the rule are among these, so rules that differ in constants only are compiled once.

    Args:
        program: The program.
        small: Maximum number of elements of tensors with single-threaded kernels.
        rest: Back end for tensors that kernels do not support.
    """

    title = "compile=True"
    advice = "use compile=False"
    scopes = frozenset({"element"})
    devices = frozenset({"cpu", "cuda", "mps", "xpu"})

    def __init__(self, program: Program, small: int, rest: Backend[Batch]) -> None:
        self.program = program
        self.small = small
        self.rest = rest
        self.kernels: dict[Any, Kernel] = {}
        self._skeleton = skeleton(program.rule)
        self._reads = program.reads

    def step(self, given: Batch) -> None:
        """Update parameters and their states in place.

        Kernels do not check their arguments, so the following go to the other back end: tensors
        that are not contiguous, tensor subclasses, and states of the wrong size or precision, for
        which eager code raises an error. So do tensors with one element, for which the compiler
        would specialize the kernel.
        """
        batch = given
        small: list[int] = []
        large: list[int] = []
        left: list[int] = []
        rows = []
        for i, (p, g, state) in enumerate(
            zip(batch.params, batch.gradients, batch.states, strict=True)
        ):
            row = (p, g, *state)
            size = p.numel()
            room = size * batch.dtype.itemsize
            if (
                size < 2
                or type(p) not in _PLAIN
                or not all(map(_CONTIGUOUS, row))
                or any(t.nbytes != room for t in state)
            ):
                left.append(i)
            else:
                (small if size <= self.small else large).append(i)
            rows.append(row)
        scalars = _vector([batch.lr, *[batch.scalars[v] for v in self._reads]], batch.dtype)
        for indices in (small, large):
            for start in range(0, len(indices), BUCKET):
                bucket = indices[start : start + BUCKET]
                tensors = [scalars]
                if self.program.is_random:
                    width = len(self.program.code.uniforms)
                    keys = [batch.keys[i] for i in bucket]
                    tensors.append(torch.tensor([[batch.t] * width, *keys]))
                for i in bucket:
                    tensors += rows[i] if rows[i][0].ndim == 1 else [t.view(-1) for t in rows[i]]
                kernel = self._kernel(len(bucket), indices is small, rows[bucket[0]][0], batch)
                kernel(*tensors)
        if left:
            self.rest.step(batch.only(left))

    def _kernel(self, count: int, is_small: bool, like: Tensor, batch: Batch) -> Kernel:
        key = (count, is_small, like.dtype, like.device)
        kernel = self.kernels.get(key)
        if kernel is None:
            try:
                kernel = self._shared_kernel((*key, batch.dtype), like)
            except Exception as error:  # raised by a user's operator during tracing
                reason = str(error).partition("\n")[0]
                raise OptimizerError(
                    f"an operator of {self.program.rule} cannot be compiled ({reason}):"
                    " use compile=False"
                ) from error
            self.kernels[key] = kernel
        return kernel

    def _shared_kernel(self, key: Any, like: Tensor) -> Kernel:
        """Return the kernel of this key for rules of this skeleton, compiled at most once."""
        shared = (self._skeleton, self.small, *key)
        kernel = _kernels.get(shared)
        if kernel is None:
            count, is_small, _, _, dtype = key
            kernel = _kernels[shared] = self._compile(count, is_small, like, dtype)
        _kernels.move_to_end(shared)
        while len(_kernels) > MOST_KERNELS:
            _kernels.popitem(last=False)
        return kernel

    def _compile(self, count: int, is_small: bool, like: Tensor, dtype: torch.dtype) -> Kernel:
        """Return a kernel for `count` tensors of any sizes."""
        examples = [torch.zeros(1 + len(self._reads), dtype=dtype)]
        if self.program.is_random:
            width = len(self.program.code.uniforms)
            examples.append(torch.zeros(1 + count, width, dtype=torch.int64))
        for i in range(count):
            # Distinct sizes: sizes that are equal in the examples must be equal in every call.
            size = (64 if is_small else 4 * self.small) + 8 * i
            examples.append(like.new_empty(size))
            examples += [
                like.new_empty(size, dtype=dtype) for _ in range(1 + len(self.program.slots))
            ]
        return compiled(self._function(), examples, threads=1 if is_small else None)

    def _function(self) -> Kernel:
        """Return the function to compile: its arguments are scalars, keys (if random), tensors."""
        update_of = _graph(self.program)
        random, width = self.program.is_random, 2 + len(self.program.slots)
        reads_parameter = self.program.uses_parameter

        def step(scalars: Tensor, *tensors: Tensor) -> None:
            lr, *numbers = scalars.unbind()
            if random:
                (t, *_), *streams = (row.unbind() for row in tensors[0].unbind())
                tensors = tensors[1:]
            for i in range(len(tensors) // width):
                p, g, *state = tensors[i * width : (i + 1) * width]
                noise = []
                if random:
                    elements = element_numbers(g)
                    noise = [uniform(key, t, elements).to(lr.dtype) for key in streams[i]]
                weights = [p.to(lr.dtype)] if reads_parameter else []
                update, *new = update_of(g, *weights, *state, *numbers, *noise)
                p.copy_(p.to(lr.dtype) - lr * update)
                for old, slot in zip(state, new, strict=True):
                    old.copy_(slot)

        return step


def _vector(numbers: list[float], dtype: torch.dtype) -> Tensor:
    """Return numbers as a tensor; faster than torch.tensor."""
    return torch.frombuffer(array("f" if dtype == torch.float32 else "d", numbers), dtype=dtype)


def _graph(program: Program) -> GraphModule:
    """Return the program as a torch graph.

    Its arguments are the gradient, the parameter (if the program uses it), state, scalars and
    random numbers.
    """
    code, graph = program.code, Graph()
    weights = [code.parameter] if program.uses_parameter else []
    inputs = [code.gradient, *weights, *(slot.before for slot in code.slots)]
    inputs += [Value(index, True) for index in program.reads]
    nodes = {value: graph.placeholder(f"v{value.index}") for value in [*inputs, *code.uniforms]}

    # Whole exponents are the same in all rules of a skeleton, and x^2 is faster than x^y.
    fixed = {i.out: i.args[0] for i in code.scalars if i.name == "constant"}

    def node(argument: Any, exponent: bool = False) -> Any:
        if exponent and argument in fixed:
            return fixed[argument]
        return nodes[argument] if isinstance(argument, Value) else argument

    for i in code.body:
        kwargs = {name: node(a) for name, a in i.kwargs}
        function = addcmul if i.name == "addcmul" else i.function
        args = tuple(node(a, i.name == "pow" and at == 1) for at, a in enumerate(i.args))
        nodes[i.out] = graph.call_function(function, args, kwargs)
    graph.output((nodes[code.result], *(nodes[slot.after] for slot in code.slots)))
    return GraphModule({}, graph)
