"""Exports a rule as the source of a torch optimizer that requires only torch."""

from __future__ import annotations

import keyword
import textwrap

from optsmith._errors import OptimizerError
from optsmith._version import __version__
from optsmith._zoo import zoo
from optsmith.optim._fused import BUCKET
from optsmith.optim._program import Program
from optsmith.optim._source import SourceCode
from optsmith.optim._template import defaults, fill, make_source
from optsmith.rules import Rule, noise_source

TUNED = "the default was tuned on the task of the study; tune it again for another task"
"""Note of exported files with a tuned learning rate."""


def class_name(rule: Rule) -> str:
    """Return the default name of the class: the rule's name in the zoo, or FoundRule."""
    known = next((name for name, entry in zoo.items() if entry.rule == rule), "found-rule")
    return "".join(word.capitalize() for word in known.split("-"))


def export(rule: Rule, name: str | None = None, lr: float | None = None) -> str:
    """Return the source of a module with the rule as a `torch.optim.Optimizer`.

    Args:
        rule: The rule.
        name: Name of the class; by default, the rule's name in the zoo or FoundRule.
        lr: A tuned learning rate, which becomes the default.

    Raises:
        OptimizerError: The name is not an identifier, or an operator cannot be exported.
    """
    name = class_name(rule) if name is None else name
    needs_length = rule.uses("time")
    call = f"{name}(params, lr=lr, total_steps=total_steps)"
    return rule_source(rule, name, lr, make_source(call, lr, needs_length=needs_length))


def rule_source(rule: Rule, name: str, lr: float | None, make: str, about: str = "") -> str:
    """Return the source of a module with the rule as a class and with the function `make`.

    Args:
        rule: The rule.
        name: Name of the class.
        lr: Default learning rate, if any.
        make: Source of `make_optimizer`.
        about: Sentence on what `make_optimizer` returns, for the notes.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise OptimizerError(f"{name!r} is not a class name: use letters, digits and _")
    program = Program(rule)
    parts = _parts(rule, name, program, SourceCode(program), lr, about)
    sections = {
        "time": program.uses_time,
        "noise": program.is_random,
        "element": program.scope == "element",
        "tensor": program.scope == "tensor",
        "math": "math." in make,
    }
    without = [section for section, used in sections.items() if not used]
    return fill("export_template.py.txt", {**parts, "make": make.rstrip()}, without)


def _indent(lines: list[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _parts(
    rule: Rule, name: str, program: Program, source: SourceCode, lr: float | None, about: str
) -> dict[str, str]:
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
            f"{about}State: {state}; half-precision parameters have float32 state and arithmetic."
            f" Learning rate: {_scale(rule) if lr is None else TUNED}.",
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
        **defaults(lr, program.uses_time),
    }


def _scale(rule: Rule) -> str:
    """Return where to start the search for a learning rate."""
    names = {operator.name for operator in rule.operators}
    start = "updates are proportional to the gradient, as in SGD; start near SGD's learning rate"
    if names & {"sign", "sg", "sm1"}:
        start = "update entries are about 1, as in sign descent; start near Adam's learning rate"
    elif names & {"Adam", "RMSprop"}:
        start = "Adam includes a factor 0.003 and RMSprop a factor 0.03; start near 1"
    return f"{start}, and tune it by powers of 3 on a short run"
