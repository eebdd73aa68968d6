"""A function of tensors as one compiled kernel that does not check its inputs at every call.

Before each call of what it compiled, torch.compile checks every tensor anew, which costs more than
a step of small tensors. Here the caller vouches for its tensors instead: it asks for a kernel by
all that may not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

Kernel = Callable[..., Any]


def compiled(function: Kernel, examples: Sequence[Tensor], threads: int | None) -> Kernel:
    """Return a function of tensors, which works in place, as one kernel.

    Sizes stay open; those that are equal in the examples, and only those, must be equal in calls.
    What else the examples are (precision, device, contiguous) every call's tensors must be too.

    Args:
        function: The function; it returns nothing.
        examples: Tensors of about the size that calls will bring.
        threads: 1 for a kernel without threads; None for torch's number.
    """
    # Imported here, as it takes seconds.
    import torch._inductor
    from torch.fx.experimental.proxy_tensor import make_fx

    with torch.no_grad(), torch.autocast(examples[0].device.type, enabled=False):
        graph = make_fx(_returning(function), tracing_mode="symbolic")(*examples)
        if not hasattr(torch._inductor, "standalone_compile"):  # before torch 2.8
            return torch.compile(graph, dynamic=True)
        options = {"size_asserts": False, **({} if threads is None else {"cpp.threads": threads})}
        with torch._inductor.config.patch(options):
            return torch._inductor.standalone_compile(graph, list(examples))


def _returning(function: Kernel) -> Kernel:
    def returning(*tensors: Tensor) -> tuple[()]:
        function(*tensors)
        return ()

    return returning
