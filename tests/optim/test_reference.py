"""Rules compared with torch's optimizers and with a NumPy evaluation."""

import numpy as np
import pytest
import torch
from runs import (
    SHAPES,
    STEPS,
    assert_near,
    clones,
    gradient,
    optimizer,
    parameters,
    run,
)

import reference
from optsmith import Rule, RuleOptimizer, zoo
from optsmith.optim import Program

L = 0.7
CLASSICS = {
    "g": lambda p, **s: torch.optim.SGD(p, L, **s),
    "m1": lambda p, **s: torch.optim.SGD(p, L, momentum=0.9, **s),
    "m1(0.5)": lambda p, **s: torch.optim.SGD(p, L, momentum=0.5, **s),
    "g + 0.9*m1": lambda p, **s: torch.optim.SGD(p, L, momentum=0.9, nesterov=True, **s),
    "Adam": lambda p, **s: torch.optim.Adam(p, 0.003 * L, **s),
    "Adam(1, 0.5, 0.9, 0.1)": lambda p, **s: torch.optim.Adam(p, L, (0.5, 0.9), 0.1, **s),
    "RMSprop": lambda p, **s: torch.optim.RMSprop(p, 0.03 * L, **s),
}


def compare(rule, make, dtype, theirs, **ours):
    params = parameters(dtype)
    others = clones(params)
    histories = [
        run(RuleOptimizer(params, rule, L, **ours), range(1, STEPS + 1)),
        run(make(others, **theirs), range(1, STEPS + 1)),
    ]
    assert_near(*histories, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rule", CLASSICS)
def test_torchs_optimizers(rule, dtype):
    compare(rule, CLASSICS[rule], dtype, {})


@pytest.mark.parametrize("rule", ["m1", "Adam"])
@pytest.mark.parametrize("maximize", [False, True])
def test_weight_decay_and_maximize_are_torchs(rule, maximize):
    settings = {"weight_decay": 0.1, "maximize": maximize}
    compare(rule, CLASSICS[rule], torch.float64, settings, **settings)


@pytest.mark.parametrize("foreach", [False, True])
def test_decoupled_weight_decay_is_adamw(foreach):
    def adamw(p, **s):
        return torch.optim.AdamW(p, 0.003 * L, weight_decay=0.2, **s)

    # The decay is lr * weight_decay, and our lr is 1/0.003 times torch's.
    settings = {"weight_decay": 0.2 * 0.003, "decoupled": True, "foreach": foreach}
    compare("Adam", adamw, torch.float64, {}, **settings)


def masks(program, seed, index, size):
    """Return the draws of each random operator of the rule for a parameter, one row per step."""
    keys, elements = program.keys(seed, index), torch.arange(size)
    rows = [program.uniforms(keys, t, elements, torch.float64) for t in range(1, STEPS + 1)]
    return [np.array([row[j].numpy() for row in rows]) for j in range(len(keys))]


# Rules with operators of the space `modern` are compared in test_known_optimizers.py.
PAPERS = [name for name, entry in zoo.items() if reference.knows(entry.rule)]
RULES = [
    *PAPERS,
    "drop(g) - drop(m1)",
    "drop(m1 / drop(g, 0.2), 0.5) + drop(ld)",
    "ld",
    "2",
    "1/g2",
]


def test_the_papers_rules_are_among_them():
    assert {"mnist1", "wnli", "addsign-cd", "lion", "adam"} <= set(PAPERS)


@pytest.mark.parametrize("text", RULES)
def test_numpy(text):
    rule = zoo[text].rule if text in zoo else Rule.parse(text)
    params = parameters()
    start = [p.detach().clone() for p in params]
    history = run(optimizer(params, str(rule), seed=5), range(1, STEPS + 1))
    taus = [t / (STEPS + 1) for t in range(1, STEPS + 1)]
    for i, shape in enumerate(SHAPES):
        rows = [gradient(params[i], i, t).numpy().ravel() for t in range(1, STEPS + 1)]
        noise = masks(Program(rule), 5, i, params[i].numel())
        updates = reference.evaluate(rule, np.array(rows), taus, noise)
        expected = start[i].numpy() - 0.01 * updates.cumsum(0).reshape(STEPS, *shape)
        ours = np.array([step[i].numpy() for step in history])
        np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-12)
