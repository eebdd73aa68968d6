"""All uses of torch's private names.

Private names may change with any version of torch; `tests/test_torch_private.py` lists the versions
that have them and fails if one is missing. `import optsmith` does not import this module, and
modules that are slow to import are imported on first use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo
from torch.optim import Optimizer

# --- multi-tensor (foreach) functions -------------------------------------------------------------

FOREACH = (
    *("abs", "add", "addcmul", "cos", "div", "exp", "lerp", "log", "mul", "neg", "pow"),
    *("sigmoid", "sign", "sin", "sqrt", "sub", "tanh"),
)
"""Names of the foreach functions that exist out of place and in place."""

on_lists: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    name: (getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_"))
    for name in FOREACH
}
"""Foreach functions by name: the out-of-place and the in-place version."""

addcdiv_lists = torch._foreach_addcdiv_
copy_lists = torch._foreach_copy_

# --- compilation ---------------------------------------------------------------------------------

Kernel = Callable[..., Any]


def compiled(function: Kernel, examples: Sequence[Tensor], threads: int | None) -> Kernel:
    """Return an in-place function of tensors compiled to one kernel without guards.

    The guards of torch.compile take longer than a step of small tensors, so the caller is
    responsible for passing suitable tensors. They must have the precision, device and contiguity of
    the examples. Their sizes may differ, except that sizes that are equal in the examples must be
    equal in every call.

    Args:
        function: The function; it returns None.
        examples: Example arguments, of about the sizes of actual calls.
        threads: 1 for a single-threaded kernel; None for torch's number of threads.
    """
    # Imported here because it takes seconds.
    import torch._inductor
    from torch.fx.experimental.proxy_tensor import make_fx

    def returning(*tensors: Tensor) -> tuple[()]:
        function(*tensors)
        return ()

    with torch.no_grad(), torch.autocast(examples[0].device.type, enabled=False):
        graph = make_fx(returning, tracing_mode="symbolic")(*examples)
        if not hasattr(torch._inductor, "standalone_compile"):  # before torch 2.8
            return torch.compile(graph, dynamic=True)
        options = {"size_asserts": False, **({} if threads is None else {"cpp.threads": threads})}
        with torch._inductor.config.patch(options):
            return torch._inductor.standalone_compile(graph, list(examples))


def not_compiled(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function such that torch.compile does not trace it but calls it between graphs.

    Equivalent to `torch.compiler.disable`, but does not import the compiler, which takes seconds.
    As long as the compiler is not imported, nothing is traced.
    """
    hidden = _disable_dynamo(function)

    @wraps(function)
    def call(*args: Any) -> None:
        (hidden if "torch._dynamo" in sys.modules else function)(*args)

    return call


# --- modules and gradients -----------------------------------------------------------------------

eigh_operation: Any = torch.ops.aten._linalg_eigh
"""The operation behind `torch.linalg.eigh`, which torch's counter of operations does not know."""

sigmoid_backward: Callable[[Tensor, Tensor], Tensor] = torch.ops.aten.sigmoid_backward
tanh_backward: Callable[[Tensor, Tensor], Tensor] = torch.ops.aten.tanh_backward


def relu_backward(slopes: Tensor, out: Tensor) -> Tensor:
    """Return the gradient with respect to the input of a ReLU, given that of its output."""
    gradient: Tensor = torch.ops.aten.threshold_backward(slopes, out, 0)
    return gradient


def has_forward_hooks(module: nn.Module) -> bool:
    """Return whether a module or one of its submodules has forward hooks."""
    return any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())


# --- vmap ----------------------------------------------------------------------------------------


def below_vmap(function: Callable[..., Tensor], *args: Any) -> Any:
    """Return the result of a function that is called once, outside of the innermost vmap.

    Args:
        function: It is given the dimension of vmap for each argument (None for those that have
            none), then the arguments with this dimension. It returns a tensor with this dimension
            in front.
        args: Tensors and other arguments; at least one of them has the dimension of vmap, else
            NotImplemented is returned.
    """
    from torch._C import _functorch
    from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter

    interpreter = retrieve_current_functorch_interpreter()
    level = interpreter.level()
    pairs = [
        _functorch._unwrap_batched(a, level) if isinstance(a, Tensor) else (a, None) for a in args
    ]
    if all(dim is None for _, dim in pairs):
        return NotImplemented
    with interpreter.lower():
        result = function([dim for _, dim in pairs], *(a for a, _ in pairs))
    return _functorch._add_batch_dim(result, 0, level)


# --- optimizers ----------------------------------------------------------------------------------

# torch's wrapper around it imports the compiler, which takes seconds.
add_param_group: Callable[[Optimizer, dict[str, Any]], None] = unwrap(Optimizer.add_param_group)


def is_sharded(tensor: Tensor) -> bool:
    """Return whether a tensor is a shard of a parameter (DTensor, FSDP)."""
    if getattr(tensor, "_is_flat_param", False) or getattr(tensor, "_fsdp_flattened", False):
        return True
    module = sys.modules.get("torch.distributed.tensor")  # DTensors exist only if it is imported
    if module is None or not isinstance(tensor, module.DTensor):
        return False
    return not all(placement.is_replicate() for placement in tensor.placements)


# --- tensors and their memory --------------------------------------------------------------------


def version(tensor: Tensor) -> int:
    """Return the number of in-place changes of a tensor."""
    return tensor._version


def untyped(storage: torch.storage.TypedStorage) -> torch.UntypedStorage:
    """Return the untyped storage of a typed storage, without torch's deprecation warning."""
    return storage._untyped_storage


def typed(memory: torch.UntypedStorage, dtype: torch.dtype) -> Any:
    """Return an untyped storage as a typed storage, which pickled tensors refer to."""
    storage: Any = torch.storage.TypedStorage  # torch has no types for it
    return storage(wrap_storage=memory, dtype=dtype, _internal=True)
