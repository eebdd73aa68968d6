"""Every back end as a function of rule and data that returns the trained parameters."""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import dataclass

import torch

from optsmith import Operator, Parameter, RuleOptimizer, State
from optsmith.optim import Program, export
from optsmith.screening._probe import Probe
from optsmith.screening._trajectory import Trajectory
from optsmith.training.stacked._columns import Columns
from optsmith.training.stacked._rows import RowOptimizer

LR, SEED = 0.1, 3

# --- operators of whole tensors: plain functions, so that they can be exported --------------------


def unit(x):
    return x / (x.norm() + 1e-12)


def norm(x):
    return x.norm()


def gram(x):
    if x.ndim != 2:
        return x
    return x @ x.T @ x / (1 + x.square().sum())


def left(x):
    """Return the initial value of a slot of shape (rows, rows), unlike the operand."""
    rows = x.shape[0] if x.ndim else 1
    return 0.1 * torch.eye(rows, dtype=x.dtype)


def gather(x, m, k, beta):
    flat = x.reshape(m.shape[0], x.numel() // max(m.shape[0], 1))
    return (beta * m + flat @ flat.T,)


def precondition(x, m, k, beta):
    flat = x.reshape(m.shape[0], x.numel() // max(m.shape[0], 1))
    return (m @ flat / (1 + m.norm() * k)).reshape(x.shape)


def branch(x):
    """Branch on values, which vmap does not support."""
    return x / x.abs().max() if x.numel() and bool(x.abs().max() > 2) else x.sign() * x.abs().sum()


WHOLE = [
    Operator("own_unit", 1, unit, scope="tensor"),
    Operator("norm", 1, norm, scope="tensor"),
    Operator("gram", 1, gram, scope="tensor"),
    Operator("branch", 1, branch, scope="tensor"),
    Operator(
        "own_whiten",
        1,
        precondition,
        parameters=(Parameter("beta", 0.9, 0.0, 1.0),),
        state=State(("left",), gather, left),
        scope="tensor",
    ),
]

# --- back ends ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """Parameters, not necessarily contiguous, and their gradients per step."""

    params: list
    gradients: list

    @property
    def total(self):
        return len(self.gradients) + 2

    def fresh(self):
        return [torch.nn.Parameter(p.detach().clone()) for p in self.params]


def by_program(rule, data):
    program = Program(rule)
    values = [p.detach().clone() for p in data.params]
    states = [program.init(p) for p in values]
    for t, gradients in enumerate(data.gradients, start=1):
        updates, states = program.update(gradients, states, t, data.total, SEED, values)
        wide = [p.to(u.dtype) - LR * u for p, u in zip(values, updates, strict=True)]
        values = [w.to(p.dtype) for w, p in zip(wide, values, strict=True)]
    return values


def _train(optimizer, params, data):
    for gradients in data.gradients:
        for p, g in zip(params, gradients, strict=True):
            p.grad = g
        optimizer.step()
    return [p.detach() for p in params]


def by_optimizer(**way):
    def run(rule, data):
        params = data.fresh()
        optimizer = RuleOptimizer(params, rule, LR, data.total, seed=SEED, **way)
        return _train(optimizer, params, data)

    return run


def by_rows(rule, data):
    """Train two copies with different gradients in one matrix; return the first."""
    shapes = tuple(tuple(p.shape) for p in data.params)
    columns = Columns(tuple(range(len(shapes))), shapes)

    def row(tensors):
        return torch.cat([x.detach().reshape(-1) for x in tensors])

    start = row(data.params)
    whole = torch.stack([start, start, start])
    optimizer = RowOptimizer(rule, [whole[:2]], [columns], (LR, 0.01), (SEED, 8), data.total)
    for gradients in data.gradients:
        g = row(gradients)
        optimizer.step([torch.stack([g, 1 - g.nan_to_num()])])
    assert torch.equal(whole[2], start)
    pieces = torch.split(whole[0], columns.sizes)
    return [x.view(s) for x, s in zip(pieces, shapes, strict=True)]


def by_copies(rule, data):
    """Apply the program to stacks of two copies; return the second."""
    program, results = Program(rule), []
    for i, p in enumerate(data.params):
        value = torch.stack([torch.ones_like(p), p.detach()])
        state, numbers = program.init(value, copies=True), torch.arange(p.numel()).view(p.shape)
        for t, gradients in enumerate(data.gradients, start=1):
            scalars = program.tensors(program.scalars(t, data.total, t), p.dtype)
            noise = program.uniforms(program.keys(SEED, i), t, numbers.expand(value.shape), p.dtype)
            stacked = torch.stack([1 - gradients[i].nan_to_num(), gradients[i]])
            update, state = program.apply(
                stacked, state, scalars, noise, copies=True, parameter=value
            )
            value = value - LR * update
        results.append(value[1])
    return results


def by_probe(rule, data):
    results, steps = [], range(len(data.gradients))
    taus = torch.tensor([(t + 1) / (data.total + 1) for t in steps], dtype=torch.float64)
    for i, p in enumerate(data.params):
        if not p.numel():
            results.append(p.detach())
            continue
        rows = torch.stack([g[i].reshape(-1) for g in data.gradients])
        shape = tuple(p.shape) or (1,)
        # The weights at a step follow from the outputs before, so they are found step by step.
        weights = p.detach().reshape(1, -1).repeat(len(rows), 1)
        for _ in rows:
            trajectory = Trajectory(rows, taus, rows.shape[1], steps, shape, weights)
            # The probe's masks are those of the first parameter.
            moved = torch.as_tensor(Probe([trajectory], SEED).run(rule)[0])
            weights = p.detach().reshape(1, -1) - LR * moved.cumsum(0).roll(1, 0)
            weights[0] = p.detach().reshape(-1)
        results.append(p.detach() - LR * moved.sum(0).view(p.shape))
    return results


_numbers = itertools.count()


def by_export(folder):
    def run(rule, data):
        path = folder / f"rule_{next(_numbers)}.py"
        path.write_text(export(rule, "Exported"))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        params = data.fresh()
        optimizer = module.Exported(params, lr=LR, total_steps=data.total, seed=SEED)
        return _train(optimizer, params, data)

    return run
