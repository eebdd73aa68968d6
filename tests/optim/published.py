"""Reference implementations of the zoo's optimizers, and how far rules are from them.

References are torch's optimizers, those of the package `pytorch_optimizer`, or the formula of a
publication in NumPy where no package has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytorch_optimizer
import torch
from torch import nn

from optsmith import Rule, RuleOptimizer
from optsmith._zoo import named_rule
from optsmith.optim import MuonWithAdamW, roles

STEPS = 50
ADAM_EPS = 1e-8
KINDS = ("matrix", "vector", "convolution")

Make = Callable[[nn.Module, float], torch.optim.Optimizer]
Step = Callable[[np.ndarray, np.ndarray, dict[str, Any], int], np.ndarray]
"""The step of a formula for lr = 1, given weights, gradient, state and the number of updates."""


def model(dtype: torch.dtype) -> nn.Module:
    """Return a model with convolutions, wide and tall matrices, and vectors; one vector is 0."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Conv2d(2, 4, 3), nn.Linear(4, 9), nn.Linear(9, 5), nn.Linear(5, 3)
        made = nn.Sequential(*layers).double()
        nn.init.zeros_(made[1].bias)
    return made.to(dtype)


def kind(p: torch.Tensor) -> str:
    return {1: "vector", 2: "matrix"}.get(p.ndim, "convolution")


# --- formulas -------------------------------------------------------------------------------------


class Formula(torch.optim.Optimizer):
    """An optimizer whose steps are computed with NumPy in double precision."""

    def __init__(self, network: nn.Module, lr: float, step: Callable[[str], Step]) -> None:
        super().__init__(network.parameters(), {"lr": lr})
        role = roles(network)
        self._steps = {p: step(role[name]) for name, p in network.named_parameters()}

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["k"] = state.get("k", 0) + 1
                w, g = p.numpy().astype(np.float64), p.grad.numpy().astype(np.float64)
                update = self._steps[p](w, g, state, state["k"])
                p -= group["lr"] * torch.from_numpy(update).to(p.dtype)


def adam(g: np.ndarray, state: dict[str, Any], k: int) -> np.ndarray:
    state["m"] = 0.9 * state.get("m", 0.0) + 0.1 * g
    state["v"] = 0.999 * state.get("v", 0.0) + 0.001 * g**2
    root = np.sqrt(state["v"] / (1 - 0.999**k))
    return np.asarray(state["m"] / (1 - 0.9**k) / (root + ADAM_EPS))


def lamb(w: np.ndarray, g: np.ndarray, state: dict[str, Any], k: int) -> np.ndarray:
    """Algorithm 2 of the publication, with the identity as phi."""
    direction = adam(g, state, k) + 0.01 * w
    size, length = np.linalg.norm(w), np.linalg.norm(direction)
    return direction * (size / length if size and length else 1.0)


def cautious_adamw(w: np.ndarray, g: np.ndarray, state: dict[str, Any], k: int) -> np.ndarray:
    """The authors' code, with the weight decay of torch's AdamW."""
    update = adam(g, state, k)
    mask = (update * g > 0).astype(np.float64)
    return update * mask / max(mask.mean(), 1e-3) + 0.01 * w


def muon(w: np.ndarray, g: np.ndarray, state: dict[str, Any], k: int) -> np.ndarray:
    """The author's Muon with Nesterov momentum, scaled to the size of AdamW's steps as in torch."""
    state["m"] = 0.95 * state.get("m", 0.0) + g
    x = (g + 0.95 * state["m"]).reshape(len(g), -1)
    rows, columns = x.shape
    x = x.T if rows > columns else x
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    x = x.T if rows > columns else x
    return 0.2 * math.sqrt(max(rows, columns)) * x.reshape(g.shape) + 0.01 * w


def adamw(w: np.ndarray, g: np.ndarray, state: dict[str, Any], k: int) -> np.ndarray:
    return adam(g, state, k) + 0.01 * w


def shampoo(w: np.ndarray, g: np.ndarray, state: dict[str, Any], k: int) -> np.ndarray:
    """Shampoo with averages, eigenvalues over their mean, and roots every ten steps."""
    if g.ndim == 1:
        return g
    x = g.reshape(len(g), -1)
    for side, square in (("left", x @ x.T), ("right", x.T @ x)):
        state[side] = 0.95 * state.get(side, 0.0) + 0.05 * square
        if k % 10 == 1:
            values, vectors = np.linalg.eigh(state[side])
            scaled = np.maximum(values / values.mean(), 1e-6)
            state[f"{side} root"] = vectors @ np.diag(scaled**-0.25) @ vectors.T
    return (state["left root"] @ x @ state["right root"]).reshape(g.shape)


def formula(step: Step, hidden: Step | None = None) -> Make:
    return lambda network, lr: Formula(
        network, lr, lambda role: hidden if hidden and role == "hidden" else step
    )


# --- references -----------------------------------------------------------------------------------


def of(cls: Callable[..., Any], **settings: Any) -> Make:
    return lambda network, lr: cls(network.parameters(), lr=lr, **settings)


class Columns(torch.optim.Optimizer):
    """LARS of `pytorch_optimizer`, with vectors as columns: it does not scale vectors."""

    def __init__(self, network: nn.Module, lr: float) -> None:
        super().__init__(network.parameters(), {"lr": lr})
        (group,) = self.param_groups
        columns = [nn.Parameter(p.detach()[:, None]) if p.ndim == 1 else p for p in group["params"]]
        self._pairs = list(zip(group["params"], columns, strict=True))
        self._lars = pytorch_optimizer.LARS(columns, lr=lr, weight_decay=0.0005)

    def step(self) -> None:
        for p, column in self._pairs:
            column.grad = p.grad.view(column.shape)
        self._lars.param_groups[0]["lr"] = self.param_groups[0]["lr"]
        self._lars.step()


@dataclass(frozen=True)
class Case:
    """A rule of the zoo and its reference.

    Attributes:
        rule: Name in the zoo, or text of a rule.
        reference: Description of the reference.
        make: Constructs the reference.
        tolerance: Largest allowed difference.
        dtype: Precision of the parameters.
        scale: Learning rate of the reference, relative to that of the rule.
    """

    rule: str
    reference: str
    make: Make = field(repr=False)
    tolerance: float = 1e-11
    dtype: torch.dtype = torch.float64
    scale: float = 1.0

    def __str__(self) -> str:
        return f"{self.rule}-{self.reference.split('(')[0]}".replace(" ", "-")


_t, _p = torch.optim, pytorch_optimizer
CASES = (
    Case("sgd", "torch SGD", of(_t.SGD)),
    Case("momentum", "torch SGD(momentum=0.9)", of(_t.SGD, momentum=0.9)),
    Case(
        "nesterov",
        "torch SGD(momentum=0.9, nesterov=True)",
        of(_t.SGD, momentum=0.9, nesterov=True),
    ),
    Case("adam", "torch Adam(0.003*lr)", of(_t.Adam), scale=0.003),
    Case("rmsprop", "torch RMSprop(0.03*lr)", of(_t.RMSprop), scale=0.03),
    Case("adamw", "torch AdamW(weight_decay=0.01)", of(_t.AdamW, weight_decay=0.01)),
    # The product of the momenta; torch, too, keeps it in single precision by default.
    Case("nadam", "torch NAdam", of(_t.NAdam), tolerance=2e-8),
    # The length of the average is a difference of large numbers, in torch as in the rule.
    Case("radam", "torch RAdam", of(_t.RAdam), tolerance=1e-10),
    Case("rmsprop-momentum", "torch RMSprop(momentum=0.9)", of(_t.RMSprop, momentum=0.9)),
    Case("adagrad", "torch Adagrad(eps=1e-8)", of(_t.Adagrad, eps=ADAM_EPS)),
    Case("muon", "formula", formula(adamw, muon)),
    # torch iterates in bfloat16, with 8 bits of precision.
    Case("muon", "torch Muon and AdamW, float32", MuonWithAdamW, 0.1, torch.float32),
    Case("signsgd", "pytorch_optimizer SignSGD(momentum=0)", of(_p.SignSGD, momentum=0.0)),
    Case("signum", "pytorch_optimizer SignSGD(momentum=0.9)", of(_p.SignSGD, momentum=0.9)),
    Case("lion", "pytorch_optimizer Lion", of(_p.Lion)),
    # A division adds 1e-8 to 1000 times the norm.
    Case("lars", "pytorch_optimizer LARS(weight_decay=5e-4)", Columns, tolerance=1e-10),
    Case("lamb", "formula", formula(lamb)),
    Case("cautious-adamw", "formula", formula(cautious_adamw)),
    Case("ademamix", "pytorch_optimizer AdEMAMix", of(_p.AdEMAMix)),
    Case("grams", "pytorch_optimizer Grams(eps=1e-8)", of(_p.Grams, eps=ADAM_EPS)),
    Case("shampoo", "formula", formula(shampoo), tolerance=1e-9),
)
MUON = Case("muon", "formula", formula(adamw, muon), dtype=torch.float32)
"""Muon in double precision as the reference of optimizers in single precision."""

SCHEDULES: dict[str, Callable[[float], float]] = {
    "": lambda tau: 1.0,
    "ld": lambda tau: 1 - tau,
    "cd": lambda tau: 0.5 * (1 + math.cos(math.pi * tau)),
}
"""Factors of the learning rate after a share tau of the run, by the decay in front of a rule."""


_MOMENTUM = "(0.9 - 0.45*0.96^(0.004*k))"
_NEXT = "(0.9 - 0.45*0.96^(0.004*k + 0.004))"
_PRODUCT = f"exp(mom(log({_MOMENTUM}), 1))"
EXACT_NADAM = (
    f"((1 - {_MOMENTUM})*(1 - {_PRODUCT})^-1*g + 0.1*{_NEXT}*(1 - {_NEXT}*{_PRODUCT})^-1*mom(g))"
    "/sqrt(ema(g2, 0.999))"
)
"""NAdam with the product of its momenta as a state; the zoo's rule computes it once per step."""


def scheduled(rule: Rule, decay: str) -> Rule:
    return Rule.parse(f"{decay}*({rule})") if decay else rule


@contextmanager
def _precision(dtype: torch.dtype) -> Iterator[None]:
    """Make a precision the default: torch keeps the product of NAdam's momenta in it."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def differences(
    case: Case, decay: str = "", make: Make | None = None, **settings: Any
) -> dict[str, float]:
    """Return the largest difference over all steps, by kind of parameter.

    It is relative to the largest distance of the reference's weights from their start, in the same
    tensor and step.

    Args:
        case: The rule and its reference.
        decay: Schedule of both.
        make: Constructs another optimizer to compare with the reference, in place of the rule.
        settings: Settings of the rule's optimizer.
    """
    lr = 0.02
    with _precision(case.dtype):
        ours, theirs = model(case.dtype), model(case.dtype)
        start = [p.detach().clone() for p in ours.parameters()]
        rule = scheduled(named_rule(case.rule), decay)
        optimizer = make(ours, lr) if make else RuleOptimizer(ours, rule, lr, STEPS, **settings)
        reference = case.make(theirs, case.scale * lr)
        found = dict.fromkeys(KINDS, 0.0)
        random = torch.Generator().manual_seed(1)
        for t in range(1, STEPS + 1):
            for group in reference.param_groups:
                group["lr"] = case.scale * lr * SCHEDULES[decay](t / (STEPS + 1))
            for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
                noise = torch.randn(p.shape, generator=random, dtype=torch.float64).to(p.dtype)
                p.grad, q.grad = (x.detach() + noise for x in (p, q))
            optimizer.step()
            reference.step()
            for p, q, s in zip(ours.parameters(), theirs.parameters(), start, strict=True):
                difference = (p.detach() - q.detach()).abs().max() / (q.detach() - s).abs().max()
                found[kind(p)] = max(found[kind(p)], float(difference))
    return found
