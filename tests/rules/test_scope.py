"""Operators of scope "tensor", checks of users' operators, and hashes of definitions."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch

from optsmith import (
    Operator,
    Parameter,
    Rule,
    RuleError,
    RuleOptimizer,
    Space,
    State,
    operators,
    screen,
    spaces,
)
from optsmith.evaluation import evaluate_recipe
from optsmith.rules import PAPER, OverCopies, definitions, is_built_in, number
from optsmith.task import find_task
from optsmith.training import Stacking
from strategies import registered


def unit(x):
    return x / x.norm()


def gram(x):
    return x @ x.T @ x / (1 + x.square().sum()) if x.ndim == 2 else x


UNIT = Operator("own_unit", 1, unit, scope="tensor")
GRAM = Operator("gram", 1, gram, scope="tensor")

# --- scope ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["own_unit(g)", "gram(m1)*ld"])
def test_stacks_score_as_runs_one_at_a_time(text):
    with registered(UNIT, GRAM):
        task = find_task("digits")
        stage = task.preset("smoke").protocol.search_stage
        plain, stacked = (
            evaluate_recipe(task, Rule.parse(text), stage, stacking=stacking)
            for stacking in (Stacking(), Stacking(8))
        )
    assert plain.status == stacked.status
    assert stacked.scores == pytest.approx(plain.scores, rel=1e-3)
    assert stacked.state_bytes == pytest.approx(plain.state_bytes)


def test_scopes_that_make_no_sense():
    with pytest.raises(RuleError, match='scope must be "element" or "tensor"'):
        Operator("f", 1, unit, scope="matrix")
    with pytest.raises(RuleError, match="one number for all"):
        Operator("f", 0, unit, feed="time", scope="tensor")


@pytest.mark.parametrize("loops", [False, True])
def test_over_copies(loops):
    def function(x, k):
        if loops and float(x.sum()) > 1e9:  # vmap cannot
            return x
        return k * x.norm() * x

    stack = torch.randn(3, 4, 2, dtype=torch.float64)
    over, k = OverCopies(function), torch.tensor(2.0)
    for _ in range(2):
        expected = torch.stack([function(x, k) for x in stack])
        torch.testing.assert_close(over(stack, k), expected)
        torch.testing.assert_close(over(stack, 2), expected)


# --- checks of users' operators -------------------------------------------------------------------


def by_numpy(x):
    x.numpy()[0] = 0.0
    return x


def forgetful(x, m, k):
    return (m.mul_(0.9) + x,)


STATE = State(("m",), lambda x, m, k: (m + x,))
BAD = {
    "clamp_": Operator("bad", 1, lambda x: x.clamp_(-1, 1)),
    "idle": Operator("bad", 1, lambda x: x.mul_(1.0)),
    "out": Operator("bad", 2, lambda x, y: torch.add(x, y, out=y)),
    "numpy": Operator("bad", 1, by_numpy),
    "update": Operator("bad", 1, lambda x, m, k: m, state=State(("m",), forgetful)),
    "state": Operator("bad", 1, lambda x, m, k: m.neg_(), state=STATE),
    "input": Operator("bad", 0, lambda g: g.abs_(), feed="gradient"),
    "whole": Operator("bad", 1, lambda x: x.div_(x.norm()), scope="tensor"),
}
NOT_ELEMENT_WISE = {
    "norm": Operator("bad", 1, lambda x: x / x.norm()),
    "number": Operator("bad", 1, lambda x: x.norm()),
    "mean": Operator("bad", 2, lambda x, y: x - y.mean()),
    "order": Operator("bad", 1, lambda x: x.sort().values),
    "matrix": Operator("bad", 1, lambda x: x @ x.T @ x),
    "input": Operator("bad", 0, lambda g: g / g.abs().max(), feed="gradient"),
    "update": Operator(
        "bad", 1, lambda x, m, k: m, state=State(("m",), lambda x, m, k: (m + x.sum(),))
    ),
}
TEXTS = {0: "bad", 1: "bad(g)", 2: "bad(g, m1)"}


def refused(operator, message):
    """Assert that the probe and the optimizer refuse an operator."""
    with registered(operator):
        rule = Rule.parse(TEXTS[operator.arity])
        for _ in range(2):
            with pytest.raises(RuleError, match=message):
                screen(rule)
            with pytest.raises(RuleError, match=message):
                RuleOptimizer([torch.zeros(2)], rule, lr=1.0)
    assert screen(Rule.parse("g")).ok


@pytest.mark.parametrize("operator", BAD.values(), ids=BAD)
def test_functions_that_work_in_place_are_refused(operator):
    refused(operator, r"the operator bad changes an argument in place: .*clamp, not clamp_")


@pytest.mark.parametrize("operator", NOT_ELEMENT_WISE.values(), ids=NOT_ELEMENT_WISE)
def test_what_is_not_element_wise_has_to_say_so(operator):
    refused(operator, r'the operator bad is not element-wise .*scope="tensor"')


def test_what_returns_its_operand_or_a_number_is_fine():
    good = [
        Operator("same", 1, lambda x: x),
        Operator("two", 1, lambda x: 2.0),
        Operator("lag", 1, lambda x, m, k: m, state=State(("m",), lambda x, m, k: (x,))),
    ]
    with registered(*good):
        assert screen(Rule.parse("same(g)*two(g)")).ok
        assert screen(Rule.parse("lag(g)")).ok


# --- definitions ----------------------------------------------------------------------------------


def definition(torch_function, **more):
    return Operator("f", 1, torch_function, **more).definition


def scaler(factor):
    return lambda x: factor * x


def with_default(x, factor=2.0):
    return factor * x


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * x


FACTOR = 3.0


def with_global(x):
    return FACTOR * helper(x)


def helper(x):
    return x


def test_definitions_are_of_what_is_computed(monkeypatch):
    pair = (lambda x: x, lambda x: 2 * x)  # on one line
    beta, other = Parameter("beta", 0.9), Parameter("beta", 0.8)
    state = State(("m",), lambda x, m, k: (m + x,))
    distinct = [
        definition(pair[0]),
        definition(pair[1]),
        definition(scaler(1.0)),
        definition(scaler(2.0)),
        definition(partial(with_default, factor=1.0)),
        definition(partial(with_default, factor=2.0)),
        definition(Scale(1.0)),
        definition(Scale(2.0)),
        definition(with_default),
        definition(with_global),
        definition(torch.tanh),
        definition(torch.sin),
        definition(pair[0], scope="tensor"),
        definition(pair[0], random=True),
        definition(pair[0], parameters=(beta,)),
        definition(pair[0], parameters=(other,)),
        definition(pair[0], state=state),
        definition(pair[0], state=State(("m",), lambda x, m, k: (m - x,))),
        definition(pair[0], state=State(("m",), state.update, torch.ones_like)),
    ]
    assert len(set(distinct)) == len(distinct)
    assert definition(scaler(2.0)) == definition(scaler(2.0))
    assert definition(pair[0], words="the same", latex="x") == distinct[0]
    assert Operator("other", 1, pair[0]).definition == distinct[0]
    assert Operator("f", 1, pair[0], parameters=(beta,)).variant(0.3).definition == distinct[14]
    before = definition(with_global)
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    assert definition(with_global) != before


def test_comments_and_names_of_files_do_not_count(tmp_path):
    texts = [
        "def f(x):\n    return 2 * x\n",
        "\n\ndef f(x):\n    '''Twice.'''\n    # twice\n    return 2*x\n",
        "def f(x):\n    return 3 * x\n",
    ]
    program = (
        "import importlib.util, sys\n"
        "from optsmith import Operator\n"
        "spec = importlib.util.spec_from_file_location('m', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print(Operator('f', 1, module.f).definition)\n"
    )

    def of(text, folder):
        path = folder / "module_of_a_user.py"
        path.write_text(text)
        command = [sys.executable, "-c", program, str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
    codes = [of(t, f) for t, f in zip(texts, folders, strict=True)]
    assert codes[0] == codes[1] != codes[2]


def test_functions_without_source_have_definitions():
    found = []
    for text in ("2 * x", "3 * x"):
        names = {}
        exec(f"def f(x):\n    return {text}", names)  # noqa: S102
        found.append(definition(names["f"]))
    assert found[0] != found[1]


def test_definitions_of_a_space():
    mine = Operator("mine", 1, lambda x: x.tanh())
    with registered(mine):
        space = Space([*PAPER, mine], [], 5)
        assert definitions(space) == definitions([mine]) == {"mine": mine.definition}
    assert definitions(spaces["paper"]) == definitions([number(0.3)]) == {}
    assert is_built_in(operators["m1"].variant(0.5))
    assert not is_built_in(Operator("g", 0, lambda g: 2 * g, feed="gradient"))


def test_a_redefined_operator_is_screened_anew():
    found = []
    for factor in (1.0, -1.0):
        with registered(
            Operator("mine", 0, scaler(factor), feed="gradient"),
            Operator("turned", 1, scaler(factor)),
        ):
            texts = ("mine", "turned(g)", "g + 2*mine")
            found.append([screen(Rule.parse(text)) for text in texts])
    for before, after in zip(*found, strict=True):
        assert before.ok
        assert not after.ok
        assert before.fingerprint != after.fingerprint


# --- words ----------------------------------------------------------------------------------------


def test_inputs_and_what_needs_explaining_have_words():
    worded = {o.name for o in PAPER if o.words}
    inputs = {o.name for o in PAPER if o.arity == 0 and o.feed != "nothing"}
    assert worded == inputs | {"clip", "drop", "sign"}
    assert operators["m1"].variant(0.5).words == operators["m1"].words != ""


def test_whole_tensors_are_seen_by_the_screen():
    with registered(UNIT, GRAM):
        found = screen(Rule.parse("own_unit(g)"))
        assert found.ok
        assert found.cosine == pytest.approx(1.0)
        assert found.fingerprint == screen(Rule.parse("own_unit(3*g)")).fingerprint
        assert found.fingerprint != screen(Rule.parse("g")).fingerprint
        assert screen(Rule.parse("gram(g)")).ok
        assert np.isfinite(screen(Rule.parse("gram(own_unit(m1))")).cosine)
