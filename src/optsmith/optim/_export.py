"""Exports a rule as the source of a torch optimizer that requires only torch."""

from __future__ import annotations

import keyword
import re
import textwrap
from importlib import resources

from optsmith._errors import OptimizerError
from optsmith._version import __version__
from optsmith._zoo import zoo
from optsmith.optim._fused import BUCKET
from optsmith.optim._program import Program
from optsmith.optim._source import SourceCode
from optsmith.rules import Rule, noise_source


def class_name(rule: Rule) -> str:
    """Return the default name of the class: the rule's name in the zoo, or FoundRule."""
    known = next((name for name, entry in zoo.items() if entry.rule == rule), "found-rule")
    return "".join(word.capitalize() for word in known.split("-"))


def export(rule: Rule, name: str | None = None) -> str:
    """Return the source of a module with the rule as a `torch.optim.Optimizer`.

    Args:
        rule: The rule.
        name: Name of the class; by default, the rule's name in the zoo or FoundRule.

    Raises:
        OptimizerError: The name is not an identifier, or an operator cannot be exported.
    """
    name = class_name(rule) if name is None else name
    if not name.isidentifier() or keyword.iskeyword(name):
        raise OptimizerError(f"{name!r} is not a class name: use letters, digits and _")
    program = Program(rule)
    source = SourceCode(program)
    template = resources.files("optsmith.optim").joinpath("export_template.py.txt").read_text()
    for key, text in _parts(rule, name, program, source).items():
        template = template.replace(f"«{key}»", text)
    lines = template.splitlines()
    if not program.uses_time:
        lines = _without(lines, "time")
    if not program.is_random:
        lines = _without(lines, "noise")
    lines = _without(lines, "element" if program.scope == "tensor" else "tensor")
    marks = r"\s*# «/?(time|noise|element|tensor)»"
    lines = [line for line in lines if not re.fullmatch(marks, line)]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).rstrip() + "\n"


def _without(lines: list[str], part: str) -> list[str]:
    """Return the lines without the sections marked as `part`."""
    kept, inside = [], False
    for line in lines:
        mark = line.strip()
        if mark == f"# «{part}»":
            inside = True
        if not inside:
            kept.append(line)
        if mark == f"# «/{part}»":
            inside = False
    return kept


def _indent(lines: list[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _parts(rule: Rule, name: str, program: Program, source: SourceCode) -> dict[str, str]:
    """Return the texts that replace the placeholders of the template."""
    state = ", ".join(source.slots) or "none"
    if program.scope == "element":
        state += f" ({4 * len(program.slots)} bytes per float32 parameter)"
    unpack = [f"{_tuple(source.slots)} = state"] if source.slots else []
    unpack += [f"{_tuple(source.scalars)} = scalars"] if source.scalars else []
    unpack += [f"{_tuple(source.uniforms)} = uniforms"] if source.uniforms else []
    result = source.result
    if program.code.result.is_scalar:
        result = f"torch.zeros_like(g) + {result}"
    return {
        "name": name,
        "rule": str(rule),
        "version": __version__,
        "notes": textwrap.fill(
            f"State: {state}; half-precision parameters have float32 state and arithmetic."
            f" Learning rate: {_scale(rule)}, and tune it by powers of 3 on a short run.",
            width=99,
        ),
        "helpers": "\n\n".join([*source.helpers.values(), ""]) if source.helpers else "",
        "noise functions": noise_source(),
        "scalars": _indent([*source.scalar_lines, f"return {_tuple(source.scalars)}"]).rstrip(),
        "update": _indent(
            [*unpack, *source.update_lines, f"return {result}, {_tuple(source.new_slots)}"]
        ).rstrip(),
        "slots": repr(program.slots),
        "inits": _tuple(source.inits),
        "count": str(len(program.code.uniforms)),
        "bucket": str(BUCKET),
        "total": "" if program.uses_time else " | None = None",
    }


def _scale(rule: Rule) -> str:
    """Return where to start the search for a learning rate."""
    names = {operator.name for operator in rule.operators}
    if names & {"sign", "sg", "sm1"}:
        return "update entries are about 1, as in sign descent; start near Adam's learning rate"
    if names & {"Adam", "RMSprop"}:
        return "Adam includes a factor 0.003 and RMSprop a factor 0.03; start near 1"
    return "updates are proportional to the gradient, as in SGD; start near SGD's learning rate"
