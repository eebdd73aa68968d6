import subprocess
import sys
from importlib.metadata import version

import pytest

import optsmith


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_import_is_light():
    code = (
        "import sys, optsmith; print([m for m in ('torch', 'sympy', 'numpy') if m in sys.modules])"
    )
    assert python(code).stdout.strip() == "[]"


def test_rules_and_spaces_need_no_torch():
    code = (
        "import sys, random, optsmith as o\n"
        "rule = o.Rule.parse('drop(g, 0.3) + m1'); rule.latex(); rule.tree()\n"
        "o.spaces['paper'].sample(random.Random(0)); [e.rule for e in o.zoo.values()]\n"
        "print('torch' in sys.modules, 'screen' in dir(o), 'torch' in sys.modules)\n"
        "o.screen(rule); print('torch' in sys.modules)"
    )
    assert python(code).stdout.split() == ["False", "True", "False", "True"]


def test_training_by_a_rule_does_not_import_the_compiler():
    """The import would delay every worker by seconds."""
    code = (
        "import sys, optsmith as o\n"
        "o.evaluate('digits', ['m1'], preset='smoke', workers=0)\n"
        "print([m for m in ('torch._dynamo', 'torch._inductor', 'sympy') if m in sys.modules])"
    )
    assert python(code).stdout.strip() == "[]"


def test_every_public_name_resolves():
    assert [name for name in optsmith.__all__ if getattr(optsmith, name, None) is None] == []
    assert set(optsmith.__all__) <= set(dir(optsmith))


def test_public_names_are_unique_and_star_works():
    assert len(set(optsmith.__all__)) == len(optsmith.__all__)
    scope = {}
    exec("from optsmith import *", scope)  # noqa: S102 - the statement under test
    assert set(optsmith.__all__) <= set(scope)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = optsmith.nonsense
    assert not hasattr(optsmith, "__wrapped__")


def test_screen_is_the_function_whatever_was_imported_first():
    code = (
        "import optsmith.screening, optsmith; from optsmith import screen\n"
        "print(screen is optsmith.screen is optsmith.screening.screen)\n"
        "print(optsmith.screen(optsmith.Rule.parse('g')).ok)"
    )
    assert python(code).stdout.split() == ["True", "True"]


def test_errors_have_one_root():
    assert issubclass(optsmith.RuleError, optsmith.OptsmithError)
    assert issubclass(optsmith.SpaceError, optsmith.OptsmithError)
    with pytest.raises(optsmith.OptsmithError):
        optsmith.Rule.parse("m1 +")


def test_version():
    assert optsmith.__version__ == version("optsmith")
