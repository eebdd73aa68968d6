"""Functions of torch on all copies of a stack, where vmap's own rules are missing or slow.

vmap has no rule for the attention kernel of a CPU, computes a linear layer on (batch, time, width)
as one small product per example, and decomposes cross entropy in Python. The functions below
compute the same values for all copies in one call each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from optsmith._torch import below_vmap

Dims = Sequence[int | None]
"""For each argument, the dimension of the copies; None if all copies share the argument."""


def _copies(dims: Dims, *args: Any) -> int:
    """Return the number of copies."""
    return next(int(a.shape[dim]) for a, dim in zip(args, dims, strict=True) if dim is not None)


def _front(x: Tensor, dim: int | None, copies: int) -> Tensor:
    """Return a tensor with the dimension of the copies in front."""
    return x.expand(copies, *x.shape) if dim is None else x.movedim(dim, 0)


# --- functions -----------------------------------------------------------------------------------


def _linears(dims: Dims, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return a linear layer, as one product per copy, or as one product if copies share inputs."""
    copies = _copies(dims, x, weight, bias)
    if dims[1] is None:
        product = functional.linear(_front(x, dims[0], copies), weight)
    elif dims[0] is None:
        joined = functional.linear(x, weight.movedim(dims[1], 0).flatten(0, 1))
        product = joined.view(*joined.shape[:-1], copies, -1).movedim(-2, 0)
    else:
        rows, each = x.movedim(dims[0], 0), weight.movedim(dims[1], 0)
        flat = rows.reshape(copies, -1, rows.shape[-1])
        if bias is not None:
            shift = _front(bias, dims[2], copies).unsqueeze(1)
            return torch.baddbmm(shift, flat, each.mT).view(*rows.shape[:-1], -1)
        return torch.bmm(flat, each.mT).view(*rows.shape[:-1], -1)
    if bias is None:
        return product
    shift = _front(bias, dims[2], copies)
    return product + shift.view(copies, *[1] * (product.ndim - 2), -1)


def _attentions(
    dims: Dims, query: Tensor, key: Tensor, value: Tensor, settings: Mapping[str, Any]
) -> Tensor:
    """Return attention by torch's kernel, with copies and examples as one dimension."""
    copies = _copies(dims, query, key, value, None)
    heads = [_front(x, dim, copies) for x, dim in zip((query, key, value), dims, strict=False)]
    q, k, v = (x.reshape(-1, *x.shape[-3:]) for x in heads)
    out = functional.scaled_dot_product_attention(q, k, v, **settings)
    return out.view(*heads[0].shape[:-1], out.shape[-1])


def _embeddings(dims: Dims, indices: Tensor, weight: Tensor) -> Tensor:
    """Return rows of the embeddings of all copies, which form one table."""
    copies = _copies(dims, indices, weight)
    each = _front(indices, dims[0], copies)
    if dims[1] is None:
        return functional.embedding(each, weight)
    table = weight.movedim(dims[1], 0)
    first = torch.arange(copies, device=each.device) * table.shape[1]
    rows = each + first.view(-1, *[1] * (each.ndim - 1))
    return functional.embedding(rows, table.flatten(0, 1))


def _losses(dims: Dims, logits: Tensor, targets: Tensor, ignored: int) -> Tensor:
    copies = _copies(dims, logits, targets, None)
    return cross_entropies(
        _front(logits, dims[0], copies), _front(targets, dims[1], copies), ignored
    )


def cross_entropies(logits: Tensor, targets: Tensor, ignored: int = -100) -> Tensor:
    """Return the mean cross entropy of each copy.

    Args:
        logits: Shape (copies, examples, classes, ...).
        targets: Class indices of shape (copies, examples, ...).
        ignored: Targets that do not count.
    """
    by_example = functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(0, 1), ignore_index=ignored, reduction="none"
    )
    counts = (targets != ignored).flatten(1).sum(dim=1)
    return by_example.view(len(targets), -1).sum(dim=1) / counts


# --- calls ---------------------------------------------------------------------------------------


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if input.ndim < 2 or weight.ndim != 2:
        return NotImplemented
    return below_vmap(_linears, input, weight, bias)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    **settings: Any,
) -> Any:
    if attn_mask is not None or dropout_p or query.shape[:-2] != key.shape[:-2]:
        return NotImplemented
    if query.ndim < 3 or key.shape[:-1] != value.shape[:-1]:
        return NotImplemented
    return below_vmap(_attentions, query, key, value, settings)


def _embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    if padding_idx is not None or max_norm is not None or scale_grad_by_freq or sparse:
        return NotImplemented
    return below_vmap(_embeddings, input, weight)


def _cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    special = weight is not None or size_average is not None or reduce is not None
    if special or reduction != "mean" or label_smoothing or target.is_floating_point():
        return NotImplemented
    if input.ndim < 2 or target.ndim != input.ndim - 1:
        return NotImplemented
    return below_vmap(_losses, input, target, ignore_index)


_CALLS: dict[Any, Callable[..., Any]] = {
    functional.linear: _linear,
    functional.scaled_dot_product_attention: _attention,
    functional.embedding: _embedding,
    functional.cross_entropy: _cross_entropy,
}


class OnCopies(TorchFunctionMode):
    """Replaces functions of torch in a function that vmap runs; results are equal up to rounding.

    Calls with settings that are not supported are left to vmap.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the result of a call."""
        call = _CALLS.get(func)
        if call is not None:
            result = call(*args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        return func(*args, **(kwargs or {}))
