"""docs/operators.md lists every operator with its operands, parameters and defaults."""

import re
from pathlib import Path

import pytest

from optsmith.rules import BUILT_IN, SCALAR_FEEDS, format_number

TEXT = (Path(__file__).parents[2] / "docs" / "operators.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)(.*?)` \|(.*)\|(.*)\|$", re.M)


def by_section():
    """Return the names of operators by the title of their section."""
    title, *rest = re.split(r"^## (.*)\n", TEXT, flags=re.M)
    assert not ROW.findall(title)
    titles, texts = rest[::2], rest[1::2]
    return {t: [row[0] for row in ROW.findall(x)] for t, x in zip(titles, texts, strict=True)}


def kind(operator):
    """Return the title of the section of an operator."""
    if operator.arity == 0 and operator.scope == "element":
        if operator.feed == "gradient":
            return "Inputs computed from the gradient"
        times = operator.feed in SCALAR_FEEDS and operator.feed != "count"
        what = "time" if times else "the parameter and the step count"
        return f"Inputs computed from {what}"
    if operator.arity == 0:
        return "Inputs computed from the parameter and the step count"
    if operator.name == "hidden":
        return "Roles"
    if operator.scope == "tensor":
        return "Whole tensors"
    if operator.state:
        return "State of any expression"
    return "Arithmetic" if operator.symbol else "Functions, element by element"


def test_every_operator_is_listed_once_in_its_section():
    sections = by_section()
    listed = [name for names in sections.values() for name in names]
    assert sorted(listed) == sorted(BUILT_IN)
    assert {n: title for title, names in sections.items() for n in names} == {
        name: kind(operator) for name, operator in BUILT_IN.items()
    }


@pytest.mark.parametrize(("name", "arguments", "formula", "use"), ROW.findall(TEXT))
def test_operands_parameters_and_defaults_agree(name, arguments, formula, use):
    operator = BUILT_IN[name]
    parts = [*("x", "y")[: operator.arity]]
    parts += [f"{p.name}={format_number(p.default)}" for p in operator.parameters]
    assert arguments == (f"({', '.join(parts)})" if parts else "")
    assert formula.strip()
