"""What rules mean, in plain NumPy, written from the definitions and not from the package."""

from __future__ import annotations

import math

import numpy as np

UNARY = {
    "neg": lambda x: -x,
    "exp": np.exp,
    "log": lambda x: np.log(np.abs(x)),
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "clip": lambda x, bound=0.003: np.minimum(np.maximum(x, -bound), bound),
    "sign": lambda x: np.where(np.isnan(x), 0.0, np.sign(x)),
    "abs": np.abs,
}


def divide(x, y):
    guard = np.where(y == 0, 1e-8, np.copysign(1e-8, y))
    return x / (y + guard)


BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": divide,
    "pow": lambda x, y: np.power(x, y),
}


def momentum(g, beta=0.9):
    out, m = [], None
    for row in g:
        m = row if m is None else beta * m + row
        out.append(m)
    return np.array(out)


def average(x, beta=0.999):
    out, m = [], None
    for row in x:
        m = row if m is None else beta * m + (1 - beta) * row
        out.append(m)
    return np.array(out)


def adam(g, scale=0.003, beta1=0.9, beta2=0.999, eps=1e-8):
    out, m, v = [], 0.0, 0.0
    for k, row in enumerate(g, start=1):
        m = beta1 * m + (1 - beta1) * row
        v = beta2 * v + (1 - beta2) * row**2
        m_hat, v_hat = m / (1 - beta1**k), v / (1 - beta2**k)
        out.append(scale * m_hat / (np.sqrt(v_hat) + eps))
    return np.array(out)


def rmsprop(g, scale=0.03, alpha=0.99, eps=1e-8):
    out, v = [], 0.0
    for row in g:
        v = alpha * v + (1 - alpha) * row**2
        out.append(scale * row / (np.sqrt(v) + eps))
    return np.array(out)


GRADIENTS = {
    "g": lambda g: g,
    "g2": lambda g: g**2,
    "g3": lambda g: g**3,
    "m1": momentum,
    "m2": lambda g, beta=0.999: average(g**2, beta),
    "m3": lambda g, beta=0.999: average(g**3, beta),
    "sg": np.sign,
    "sm1": lambda g, beta=0.9: np.sign(momentum(g, beta)),
    "Adam": adam,
    "RMSprop": rmsprop,
}

TIMES = {
    "ld": lambda tau: 1 - tau,
    "cd": lambda tau, n=0.5: 0.5 * (1 + math.cos(2 * math.pi * n * tau)),
    "rd": lambda tau, n=20: 0.5 * (1 + math.cos(math.pi * math.fmod(n * tau, 1))),
    "wc": lambda tau, warmup=0.1: (
        tau / warmup
        if tau < warmup
        else 0.5 + 0.5 * math.cos(math.pi * (tau - warmup) / (1 - warmup))
    ),
}

NUMBERS = {"1": 1.0, "2": 2.0}


def drop(x, uniform, rate=0.1):
    return np.where(uniform >= rate, 1.0, 0.0) * x / (1 - rate)


def knows(rule):
    """Return whether all operators of a rule are defined here."""
    defined = {*UNARY, *BINARY, *GRADIENTS, *TIMES, "drop"}
    return all(node.name in defined or node.name[0].isdigit() for node in rule.operators)


def evaluate(rule, gradients, taus, uniforms=()):
    """Return the updates of a rule, one row a step.

    `uniforms` has an array like the gradients for each `drop`, the last `drop` in the text first.
    """
    g = np.asarray(gradients, dtype=np.float64)
    noise = list(uniforms)

    def value(nodes):
        node = next(nodes)
        if node.name in GRADIENTS:
            return GRADIENTS[node.name](g, *node.values)
        if node.name in TIMES:
            column = np.array([[TIMES[node.name](tau, *node.values)] for tau in taus])
            return np.broadcast_to(column, g.shape)
        if node.arity == 0:
            return np.full(g.shape, float(node.name))
        own = noise.pop() if node.name == "drop" else None
        first = value(nodes)
        if own is not None:
            return drop(first, own, *node.values)
        if node.arity == 1:
            return UNARY[node.name](first, *node.values)
        return BINARY[node.name](first, value(nodes))

    with np.errstate(all="ignore"):
        return value(iter(rule.operators))
