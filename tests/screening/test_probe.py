import random

import numpy as np
import pytest
import torch

import reference
from optsmith import Rule, spaces, zoo
from optsmith.screening._probe import Probe
from optsmith.screening._trajectory import Trajectory, gaussian
from strategies import papers

TAUS = [0.1, 0.35, 0.6, 0.85]


def trajectory(steps=4, size=30, seed=0, recorded=None, period=None):
    g = gaussian(random.Random(seed), steps, size)
    g[:, ::7] = 0.0
    taus = torch.tensor(TAUS[:steps], dtype=torch.float64)
    return Trajectory(g, taus, period or size, recorded or range(steps))


def test_gaussian_is_reproducible_and_normal():
    one, two = (gaussian(random.Random(4), 50, 200, 0.5) for _ in range(2))
    assert torch.equal(one, two)
    assert one.dtype == torch.float64
    assert float(one.mean()) == pytest.approx(0, abs=0.03)
    assert float(one.std()) == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize("name", [n for n in papers(zoo) if "drop" not in zoo[n].text])
def test_zoo_rules_against_numpy(name):
    t = trajectory()
    out = Probe([t], 0).run(zoo[name].rule)[0]
    expected = reference.evaluate(zoo[name].rule, t.gradients.numpy(), TAUS)
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-12)


def test_random_rules_against_numpy():
    rng, t = random.Random(9), trajectory()
    probe, g = Probe([t], 0), t.gradients.numpy()
    compared = 0
    while compared < 400:
        rule = spaces["paper"].sample(rng)
        if "drop" in str(rule):
            continue
        compared += 1
        out, expected = probe.run(rule)[0], reference.evaluate(rule, g, TAUS)
        # A few values may differ where terms cancel.
        with np.errstate(all="ignore"):
            near = np.isclose(out, expected, rtol=1e-6, atol=1e-12, equal_nan=True)
        assert near.mean() > 0.97, rule


@pytest.mark.parametrize("text", ["m1", "Adam*ld", "drop(m1)", "drop(rd)*m2 - g", "2"])
def test_recorded_steps_are_rows_of_the_whole(text):
    rule = Rule.parse(text)
    whole = Probe([trajectory()], 0).run(rule)[0]
    some = Probe([trajectory(recorded=range(1, 4, 2))], 0).run(rule)[0]
    assert whole.shape == (4, 30)
    assert some.shape == (2, 30)
    np.testing.assert_array_equal(some, whole[[1, 3]])


@pytest.mark.parametrize("text", ["g", "m1", "Adam", "m3*ld", "cd", "1"])
def test_trajectories_do_not_mix(text):
    rule = Rule.parse(text)
    parts = [
        trajectory(),
        trajectory(2, 5, seed=1),
        trajectory(3, 11, seed=2, recorded=range(2, 3)),
    ]
    together = Probe(parts, 0).run(rule)
    for part, out in zip(parts, together, strict=True):
        np.testing.assert_array_equal(out, Probe([part], 0).run(rule)[0])
        assert out.shape == (len(part.recorded), part.gradients.shape[1])


def test_masks_repeat_with_the_period():
    out = Probe([trajectory(size=60, period=30)], 0).run(Rule.parse("drop(1) + drop(drop(2))"))[0]
    np.testing.assert_array_equal(out[:, :30], out[:, 30:])
    assert len(np.unique(out)) > 2


def test_masks_do_not_depend_on_what_ran_before():
    rule = Rule.parse("drop(g) + drop(m1)*drop(drop(ld))")
    fresh = Probe([trajectory()], 3).run(rule)[0]
    used = Probe([trajectory()], 3)
    for text in ("drop(g)", "drop(drop(drop(g)))", "m1", str(rule)):
        used.run(Rule.parse(text))
    np.testing.assert_array_equal(fresh, used.run(rule)[0])
    assert not np.array_equal(fresh, Probe([trajectory()], 4).run(rule)[0])


def test_results_do_not_depend_on_torchs_state():
    rule = Rule.parse("drop(Adam) + 0.3*rd")
    before = Probe([trajectory()], 0).run(rule)[0]
    torch.manual_seed(99)
    kind = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        np.testing.assert_array_equal(Probe([trajectory()], 0).run(rule)[0], before)
    finally:
        torch.set_default_dtype(kind)


def test_outputs_of_a_run_are_not_overwritten_by_the_next():
    probe = Probe([trajectory()], 0)
    first = probe.run(Rule.parse("g"))[0]
    kept = first.copy()
    probe.run(Rule.parse("-g"))
    probe.run(Rule.parse("g*2"))
    np.testing.assert_array_equal(first, kept)
