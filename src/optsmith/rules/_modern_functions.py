"""The torch functions of the operators of the space `modern`.

They call methods of tensors only, so that importing this module does not import torch. Functions of
whole tensors treat a tensor with more than two dimensions as a matrix of its first dimension times
the others, and a vector as a matrix with one row or one column; `whiten` does not change vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optsmith.rules._functions import filtered

if TYPE_CHECKING:
    from torch import Tensor

# --- inputs ---------------------------------------------------------------------------------------


def itself(x: Tensor) -> Tensor:
    return x


def longer_side(w: Tensor) -> Tensor:
    """Return the root of the longer side of a matrix."""
    rows = len(w) if w.ndim > 1 else w.numel()
    return w.new_tensor(max(rows, w.numel() / max(rows, 1), 1.0) ** 0.5)


def tallness(w: Tensor) -> Tensor:
    """Return the root of the number of rows per column of a matrix, and at least 1."""
    rows = len(w) if w.ndim > 1 else w.numel()
    return w.new_tensor(max(rows * rows / max(w.numel(), 1), 1.0) ** 0.5)


def warm_up(tau: Tensor, share: float) -> Tensor:
    """Return a linear rise from 0 to 1 over the first share of the run."""
    return (tau / share).where(tau < share, 1.0)


def linear_fall(tau: Tensor, start: float, end: float, low: float) -> Tensor:
    """Return 1 until `start`, then a linear fall to `low` at `end`."""
    passed = (tau - start) / (end - start)
    fall = 1 - (1 - low) * passed
    return fall.where(tau < end, low).where(tau > start, 1.0)


def cosine_fall(tau: Tensor, start: float, end: float, low: float) -> Tensor:
    """Return 1 until `start`, then a fall to `low` at `end` in the form of a cosine."""
    passed = (tau - start) / (end - start)
    fall = low + (1 - low) * 0.5 * (1 + (3.141592653589793 * passed).cos())
    return fall.where(tau < end, low).where(tau > start, 1.0)


# --- element by element ---------------------------------------------------------------------------


def positive(x: Tensor) -> Tensor:
    return x.clamp(min=0)


def larger(x: Tensor, y: Tensor) -> Tensor:
    return x.maximum(y)


def smaller(x: Tensor, y: Tensor) -> Tensor:
    return x.minimum(y)


def mix(x: Tensor, y: Tensor, c: float) -> Tensor:
    """Return c*x + (1 - c)*y."""
    return y.lerp(x, c)


def choose(x: Tensor, y: Tensor) -> Tensor:
    """Raise: which operand is meant depends on the role of a parameter."""
    raise TypeError("a rule with hidden(x, y) is run by role: see `for_role`")


# --- state ----------------------------------------------------------------------------------------


def average(x: Tensor, m: Tensor, k: float, beta: float) -> tuple[Tensor]:
    """Return the exponential moving average, which starts at 0."""
    return (m.lerp(x, 1 - beta),)


def corrected(x: Tensor, m: Tensor, k: float, beta: float) -> Tensor:
    """Return the average divided by the sum of its weights."""
    mean: Tensor = m / (1 - beta**k)
    return mean


def momentum(x: Tensor, m: Tensor, k: float, beta: float) -> Tensor:
    """Return the state."""
    return m


def hold(x: Tensor, held: Tensor, k: float) -> tuple[Tensor]:
    return (x,)


def previous(x: Tensor, held: Tensor, k: float) -> Tensor:
    """Return the operand of the previous step; at the first step, the operand itself."""
    return held.lerp(x, 0 + 1 * (k == 1))


def scan_average(x: Tensor, beta: float) -> tuple[Tensor]:
    return (filtered(x, 1 - beta, beta),)


def scan_previous(x: Tensor) -> tuple[Tensor]:
    return (x.roll(1, 0),)


# --- whole tensors --------------------------------------------------------------------------------


def orthogonal(x: Tensor) -> Tensor:
    """Return the nearest matrix with singular values of about 1, by Newton-Schulz iterations.

    As in Muon, five iterations bring every singular value to between 0.7 and 1.2; on accelerators
    in bfloat16. Double precision is kept.
    """
    return orthogonal_copies(x.unsqueeze(0)).squeeze(0)


def orthogonal_copies(x: Tensor) -> Tensor:
    """Return `orthogonal` of each entry of the first dimension.

    vmap would split the products with a sum into several passes.
    """
    matrix = x.flatten(2) if x.ndim > 2 else x.reshape(len(x), x[0].numel(), 1)
    wide = matrix if matrix.shape[1] <= matrix.shape[2] else matrix.mT
    # Processors without instructions for bfloat16 take several times as long with it.
    low = wide.bfloat16() if wide.device.type != "cpu" else wide.float()
    wide = wide if wide.dtype.itemsize == 8 else low
    wide = wide / (wide.norm(dim=(1, 2), keepdim=True) + 1e-7)
    much_wider = wide.shape[2] >= 2 * wide.shape[1] and wide.dtype.itemsize > 2
    wide = schulz_of_square(wide) if much_wider else schulz(wide)
    tall: Tensor = wide if matrix.shape[1] <= matrix.shape[2] else wide.mT
    return tall.to(x.dtype).reshape(x.shape)


def schulz(wide: Tensor) -> Tensor:
    """Return five Newton-Schulz iterations of wide matrices."""
    for _ in range(5):
        square = wide.bmm(wide.mT)
        factor = square.baddbmm(square, square, beta=-4.775, alpha=2.0315)
        wide = wide.baddbmm(factor, wide, beta=3.4445)
    return wide


def schulz_of_square(wide: Tensor) -> Tensor:
    """Return `schulz` with two products of the whole matrix instead of ten.

    Every iteration is a polynomial of x*x^T times x, and polynomials of one matrix commute: so the
    square of each iterate follows from that of the one before.
    """
    square = wide.bmm(wide.mT)
    whole = factor = schulz_factor(square)
    for _ in range(4):
        square = factor.bmm(square).bmm(factor)
        factor = schulz_factor(square)
        whole = factor.bmm(whole)
    product: Tensor = whole.bmm(wide)
    return product


def schulz_factor(square: Tensor) -> Tensor:
    """Return what an iteration multiplies a matrix by, given its square."""
    factor = square.baddbmm(square, square, beta=-4.775, alpha=2.0315)
    factor.diagonal(dim1=1, dim2=2).add_(3.4445)
    return factor


def root_mean_square(x: Tensor) -> Tensor:
    """Return the root mean square of all entries: one number."""
    return x.square().mean().sqrt()


def unit(x: Tensor) -> Tensor:
    """Return x divided by its root mean square."""
    scaled: Tensor = x / (x.square().mean().sqrt() + 1e-12)
    return scaled


def unit_rows(x: Tensor) -> Tensor:
    """Return x with each row divided by its root mean square."""
    matrix = x.flatten(1) if x.ndim > 1 else x.reshape(1, x.numel())
    scaled = matrix / (matrix.square().mean(1, keepdim=True).sqrt() + 1e-12)
    return scaled.reshape(x.shape)


def unit_columns(x: Tensor) -> Tensor:
    """Return x with each column divided by its root mean square."""
    matrix = x.flatten(1) if x.ndim > 1 else x.reshape(x.numel(), 1)
    scaled = matrix / (matrix.square().mean(0, keepdim=True).sqrt() + 1e-12)
    return scaled.reshape(x.shape)


def square_of_rows(like: Tensor) -> Tensor:
    """Return zeros, rows times rows; empty for vectors and for too many rows."""
    rows = len(like) if like.ndim > 1 and len(like) <= 1024 else 0
    return like.new_zeros(rows, rows)


def square_of_columns(like: Tensor) -> Tensor:
    """Return zeros, columns times columns; empty for vectors and for too many columns."""
    columns = like.shape[1:].numel() if like.ndim > 1 else 0
    columns = columns if columns <= 1024 else 0
    return like.new_zeros(columns, columns)


def inverse_root(square: Tensor, power: float) -> Tensor:
    """Return a symmetric matrix to a negative power, with its eigenvalues over their mean.

    Eigenvalues below a millionth of the mean count as that.
    """
    import torch

    if not square.numel():
        return square
    values, vectors = torch.linalg.eigh(square)
    scaled = values / (values.mean() + 1e-30)
    roots = scaled.clamp(min=1e-6) ** -power
    power_of: Tensor = (vectors * roots) @ vectors.mT
    return power_of


def whiten_update(
    x: Tensor,
    y: Tensor,
    left: Tensor,
    right: Tensor,
    left_root: Tensor,
    right_root: Tensor,
    k: float,
    beta: float,
    every: float,
) -> tuple[Tensor, ...]:
    """Return the averages of y*y^T and y^T*y and, every few steps, their inverse fourth roots."""
    matrix = y.flatten(1) if y.ndim > 1 else y.reshape(y.numel(), 1)
    if left.numel():
        left = beta * left + (1 - beta) * (matrix @ matrix.mT)
    if right.numel():
        right = beta * right + (1 - beta) * (matrix.mT @ matrix)
    if (float(k) - 1) % every == 0:
        left_root, right_root = inverse_root(left, 0.25), inverse_root(right, 0.25)
    return left, right, left_root, right_root


def whiten(
    x: Tensor,
    y: Tensor,
    left: Tensor,
    right: Tensor,
    left_root: Tensor,
    right_root: Tensor,
    k: float,
    beta: float,
    every: float,
) -> Tensor:
    """Return x between the inverse fourth roots; a side that is too long is left as it is."""
    matrix = x.flatten(1) if x.ndim > 1 else x.reshape(x.numel(), 1)
    if left_root.numel():
        matrix = left_root @ matrix
    if right_root.numel():
        matrix = matrix @ right_root
    return matrix.reshape(x.shape)


def whiten_rows_update(
    x: Tensor, y: Tensor, left: Tensor, root: Tensor, k: float, beta: float, every: float
) -> tuple[Tensor, ...]:
    """Return the average of y*y^T and, every few steps, its inverse square root."""
    matrix = y.flatten(1) if y.ndim > 1 else y.reshape(y.numel(), 1)
    if left.numel():
        left = beta * left + (1 - beta) * (matrix @ matrix.mT)
    return left, inverse_root(left, 0.5) if (float(k) - 1) % every == 0 else root


def whiten_rows(
    x: Tensor, y: Tensor, left: Tensor, root: Tensor, k: float, beta: float, every: float
) -> Tensor:
    """Return the inverse square root times x; x itself if it has too many rows."""
    matrix = x.flatten(1) if x.ndim > 1 else x.reshape(x.numel(), 1)
    return (root @ matrix).reshape(x.shape) if root.numel() else x


def whiten_columns_update(
    x: Tensor, y: Tensor, right: Tensor, root: Tensor, k: float, beta: float, every: float
) -> tuple[Tensor, ...]:
    """Return the average of y^T*y and, every few steps, its inverse square root."""
    matrix = y.flatten(1) if y.ndim > 1 else y.reshape(y.numel(), 1)
    if right.numel():
        right = beta * right + (1 - beta) * (matrix.mT @ matrix)
    return right, inverse_root(right, 0.5) if (float(k) - 1) % every == 0 else root


def whiten_columns(
    x: Tensor, y: Tensor, right: Tensor, root: Tensor, k: float, beta: float, every: float
) -> Tensor:
    """Return x times the inverse square root; x itself if it has too many columns."""
    matrix = x.flatten(1) if x.ndim > 1 else x.reshape(x.numel(), 1)
    return (matrix @ root).reshape(x.shape) if root.numel() else x


ON_COPIES = {orthogonal: orthogonal_copies}
"""Functions of whole tensors, and equal functions of stacks of copies that are faster than vmap."""
