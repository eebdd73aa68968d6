"""Everything private of torch that the package uses; no other module does.

Private names may change with any version of torch: `tests/test_torch_private.py` says which
versions have them, and fails for the first that does not. `import optsmith` does not import this
module, and what takes long to import is imported on first use.
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

# --- functions of lists of tensors ---------------------------------------------------------------

FOREACH = (
    *("abs", "add", "addcmul", "cos", "div", "exp", "lerp", "log", "mul", "neg", "pow"),
    *("sigmoid", "sign", "sin", "sqrt", "sub", "tanh"),
)
"""Names of the functions that torch has for lists, new and in place."""

on_lists: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    name: (getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_"))
    for name in FOREACH
}
"""Functions of lists by name: one that returns a new list, one that works in place."""

addcdiv_lists = torch._foreach_addcdiv_
copy_lists = torch._foreach_copy_

# --- compilation ---------------------------------------------------------------------------------

Kernel = Callable[..., Any]


def compiled(function: Kernel, examples: Sequence[Tensor], threads: int | None) -> Kernel:
    """Return a function of tensors, which works in place, as one kernel.

    Before each call of what it compiled, torch.compile checks every tensor anew, which costs more
    than a step of small tensors. Here the caller vouches for its tensors instead. Sizes stay open;
    those that are equal in the examples, and only those, must be equal in calls. What else the
    examples are (precision, device, contiguous) every call's tensors must be too.

    Args:
        function: The function; it returns nothing.
        examples: Tensors of about the size that calls will bring.
        threads: 1 for a kernel without threads; None for torch's number.
    """
    # Imported here, as it takes seconds.
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
    """Return a function that torch.compile does not trace but calls as it is, between its graphs.

    It is `torch.compiler.disable` without its import of the compiler, which takes seconds: until
    something else imports the compiler, nothing can be traced.
    """
    hidden = _disable_dynamo(function)

    @wraps(function)
    def call(*args: Any) -> None:
        (hidden if "torch._dynamo" in sys.modules else function)(*args)

    return call


# --- modules and gradients -----------------------------------------------------------------------

sigmoid_backward: Callable[[Tensor, Tensor], Tensor] = torch.ops.aten.sigmoid_backward
tanh_backward: Callable[[Tensor, Tensor], Tensor] = torch.ops.aten.tanh_backward


def relu_backward(slopes: Tensor, out: Tensor) -> Tensor:
    """Return the gradient by the input of a ReLU, from that by its output."""
    gradient: Tensor = torch.ops.aten.threshold_backward(slopes, out, 0)
    return gradient


def has_forward_hooks(module: nn.Module) -> bool:
    """Return whether a module or one inside it has hooks that see its inputs or outputs."""
    return any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())


# --- optimizers ----------------------------------------------------------------------------------

# torch hides its own from torch.compile, and imports that to do so, which takes seconds.
add_param_group: Callable[[Optimizer, dict[str, Any]], None] = unwrap(Optimizer.add_param_group)


def is_sharded(tensor: Tensor) -> bool:
    """Return whether a tensor is a process's part of a parameter (DTensor, FSDP)."""
    if getattr(tensor, "_is_flat_param", False) or getattr(tensor, "_fsdp_flattened", False):
        return True
    module = sys.modules.get("torch.distributed.tensor")  # without it there are none
    if module is None or not isinstance(tensor, module.DTensor):
        return False
    return not all(placement.is_replicate() for placement in tensor.placements)


# --- tensors and their memory --------------------------------------------------------------------


def version(tensor: Tensor) -> int:
    """Return how often a tensor was changed in place."""
    return tensor._version


def untyped(storage: torch.storage.TypedStorage) -> torch.UntypedStorage:
    """Return the memory of a typed storage, without torch's warning that these are deprecated."""
    return storage._untyped_storage


def typed(memory: torch.UntypedStorage, dtype: torch.dtype) -> Any:
    """Return memory as the typed storage that pickled tensors refer to."""
    storage: Any = torch.storage.TypedStorage  # torch has no types for it
    return storage(wrap_storage=memory, dtype=dtype, _internal=True)
