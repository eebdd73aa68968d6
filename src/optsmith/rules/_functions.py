"""The torch functions of the operators that come with the package.

They call methods of tensors only, so that importing this module does not import torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

# --- unary ----------------------------------------------------------------------------------------


def negate(x: Tensor) -> Tensor:
    return -x


def exponential(x: Tensor) -> Tensor:
    return x.exp()


def log_abs(x: Tensor) -> Tensor:
    return x.abs().log()


def sqrt_abs(x: Tensor) -> Tensor:
    return x.abs().sqrt()


def clip(x: Tensor, bound: float) -> Tensor:
    return x.clamp(-bound, bound)


def drop(x: Tensor, uniform: Tensor, rate: float) -> Tensor:
    """Set a fraction `rate` of the elements to 0 and divide the others by 1 - rate (dropout)."""
    return x * (uniform >= rate) / (1 - rate)


def sign(x: Tensor) -> Tensor:
    return x.sign()


def absolute(x: Tensor) -> Tensor:
    return x.abs()


# --- binary ---------------------------------------------------------------------------------------


def add(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def subtract(x: Tensor, y: Tensor) -> Tensor:
    return x - y


def multiply(x: Tensor, y: Tensor) -> Tensor:
    return x * y


GUARD = 1e-8
"""Added to the absolute value of a divisor."""


def divide(x: Tensor, y: Tensor) -> Tensor:
    """Return x/(y + 1e-8) for y >= 0 and x/(y - 1e-8) for y < 0."""
    return x / (y - GUARD).where(y < 0, y + GUARD)


def power(x: Tensor, y: Tensor) -> Tensor:
    """Return x to the power of y; NaN where it is not real."""
    return x**y


# --- inputs computed from the gradient ------------------------------------------------------------


def gradient(g: Tensor) -> Tensor:
    return g


def square(g: Tensor) -> Tensor:
    return g * g


def cube(g: Tensor) -> Tensor:
    return g * g * g


def momentum(x: Tensor, m: Tensor, k: float, beta: float) -> tuple[Tensor]:
    """Return the momentum of torch's SGD: beta*m + x."""
    return (beta * m + x,)


def scan_momentum(x: Tensor, beta: float) -> tuple[Tensor]:
    """Return the momentum at all steps."""
    return (filtered(x, 1.0, beta),)


def filtered(x: Tensor, weight: float, beta: float) -> Tensor:
    """Return y with y[k] = beta*y[k-1] + weight*x[k], for all steps at once."""
    import torch
    from scipy.signal import lfilter

    values: Any = lfilter([weight], [1.0, -beta], x.numpy(), axis=0)
    return torch.from_numpy(values)


def _average(x: Tensor, m: Tensor, k: float, beta: float) -> Tensor:
    # At the first update the weight of x is 1.
    return m.lerp(x, 1 - beta + beta * (k == 1))


def average_square(g: Tensor, m: Tensor, k: float, beta: float) -> tuple[Tensor]:
    return (_average(g * g, m, k, beta),)


def average_cube(g: Tensor, m: Tensor, k: float, beta: float) -> tuple[Tensor]:
    return (_average(g * g * g, m, k, beta),)


def read(g: Tensor, m: Tensor, k: float, beta: float) -> Tensor:
    """Return the state."""
    return m


def read_sign(g: Tensor, m: Tensor, k: float, beta: float) -> Tensor:
    """Return the sign of the state."""
    return m.sign()


def adam_moments(
    g: Tensor, m: Tensor, v: Tensor, k: float, scale: float, beta1: float, beta2: float, eps: float
) -> tuple[Tensor, Tensor]:
    """Return the moving averages of g and of its square, which start at 0."""
    return m.lerp(g, 1 - beta1), (v * beta2).addcmul(g, g, value=1 - beta2)


def adam(
    g: Tensor, m: Tensor, v: Tensor, k: float, scale: float, beta1: float, beta2: float, eps: float
) -> Tensor:
    """Return the update of torch's Adam with learning rate `scale`."""
    step: Tensor = m / (v.sqrt() / (1 - beta2**k) ** 0.5 + eps) * (scale / (1 - beta1**k))
    return step


def rmsprop_moment(
    g: Tensor, v: Tensor, k: float, scale: float, alpha: float, eps: float
) -> tuple[Tensor]:
    """Return the moving average of the square of g, which starts at 0."""
    return ((v * alpha).addcmul(g, g, value=1 - alpha),)


def rmsprop(g: Tensor, v: Tensor, k: float, scale: float, alpha: float, eps: float) -> Tensor:
    """Return the update of torch's RMSprop with learning rate `scale`."""
    return scale * g / (v.sqrt() + eps)


# --- inputs computed from time --------------------------------------------------------------------


def linear_decay(tau: Tensor) -> Tensor:
    return 1 - tau


def cosine_decay(tau: Tensor, n: float) -> Tensor:
    return 0.5 * (1 + (2 * math.pi * n * tau).cos())


def warmup_cosine(tau: Tensor, warmup: float) -> Tensor:
    """Return a linear rise from 0 to 1 at `warmup`, then a cosine decay to 0."""
    fall = 0.5 * (1 + (math.pi * (tau - warmup) / (1 - warmup)).cos())
    return (tau / warmup).where(tau < warmup, fall)


def restart_decay(tau: Tensor, n: float) -> Tensor:
    return 0.5 * (1 + (math.pi * ((n * tau) % 1)).cos())
