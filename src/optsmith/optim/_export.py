"""Exports a rule as the source of a torch optimizer that requires only torch."""

from __future__ import annotations

import keyword
import textwrap
from dataclasses import dataclass

from optsmith._errors import OptimizerError
from optsmith._version import __version__
from optsmith._zoo import zoo
from optsmith.optim._export_roles import roles_source
from optsmith.optim._fragments import assigned
from optsmith.optim._fused import BUCKET
from optsmith.optim._helpers import Helpers
from optsmith.optim._program import Program
from optsmith.optim._roles import ROLES
from optsmith.optim._source import SourceCode
from optsmith.optim._template import defaults, fill, make_source
from optsmith.rules import Rule, depends_on_role, for_role, noise_source

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
    needs_model = depends_on_role(rule)
    call = f"{name}({'model' if needs_model else 'params'}, lr=lr, total_steps=total_steps)"
    make = make_source(call, lr, needs_length=rule.uses("time"), needs_model=needs_model)
    return rule_source(rule, name, lr, make)


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
    helpers = Helpers()
    by_role = depends_on_role(rule)
    parts = [
        _Part(SourceCode(Program(for_role(rule, role.is_hidden)), helpers), role)
        for role in (_BY_ROLE if by_role else (_ANY,))
    ]
    programs = [part.program for part in parts]
    sections = {
        "time": rule.uses("time"),
        "noise": any(program.is_random for program in programs),
        "element": all(program.scope == "element" for program in programs),
        "tensor": any(program.scope == "tensor" for program in programs),
        "parameter": any(program.uses_parameter for program in programs),
        "no parameter": not any(program.uses_parameter for program in programs),
        "roles": by_role,
        "plain": not by_role,
        "decomposition": any(s.startswith("@") for s in helpers.sources.values()),
        "math": "math." in make,
    }
    without = [section for section, used in sections.items() if not used]
    texts = {
        "name": name,
        "rule": str(rule),
        "title": f"`{rule}`" if len(str(rule)) < 70 else "of this module",
        "version": __version__,
        "notes": textwrap.fill(
            f"{about}State{'; '.join(part.state for part in parts)}; half-precision parameters"
            " have float32 state and arithmetic."
            f" Learning rate: {_scale(rule) if lr is None else TUNED}.",
            width=99,
        ),
        "helpers": "\n\n".join([*helpers.sources.values(), ""]) if helpers.sources else "",
        "noise functions": noise_source(),
        "parts": "\n\n".join(part.functions(without) for part in parts).rstrip(),
        "slots": repr(programs[0].slots),
        "count": str(len(programs[0].code.uniforms)),
        "bucket": str(BUCKET),
        **(_with_roles(parts) if by_role else _WITHOUT_ROLES),
        **defaults(lr, rule.uses("time")),
    }
    return fill("export_template.py.txt", {**texts, "make": make.rstrip()}, without)


@dataclass(frozen=True)
class _Role:
    """Parameters with functions of their own in the file."""

    is_hidden: bool
    suffix: str
    whose: str
    state: str


_ANY = _Role(False, "", "a parameter", "")
_BY_ROLE = (
    _Role(True, "_hidden", "a hidden matrix", " of hidden matrices"),
    _Role(False, "_others", "a parameter that is no hidden matrix", "of others"),
)
_WITHOUT_ROLES = {
    **dict.fromkeys(("mapping", "named tuple", "nn", "part."), ""),
    "slots name": "SLOTS",
    "streams name": "STREAMS",
    "accepts": "Parameters, named parameters, or parameter groups",
    "grouped": "params",
}


def _with_roles(parts: list[_Part]) -> dict[str, str]:
    """Return the texts of a file with functions for each role."""
    table = []
    for part in parts:
        suffix, program = part.role.suffix, part.program
        functions = ",\n    ".join(f"{kind}_of{suffix}" for kind in ("state", "scalars", "update"))
        values = f"    {program.slots!r},\n    {len(program.code.uniforms)},\n    {functions},"
        table.append(f"OF{suffix.upper()} = Part(\n{values}\n)")
    return {
        "mapping": "Mapping, ",
        "named tuple": ", NamedTuple",
        "nn": ", nn",
        "part.": "part.",
        "slots name": "part.slots",
        "streams name": "part.streams",
        "accepts": f"A module, or parameter groups with a `role`: {', '.join(ROLES)}",
        "grouped": "role_groups(params, RULE)",
        "role functions": roles_source(),
        "part table": "\n".join(table),
    }


@dataclass(frozen=True)
class _Part:
    """The source of a rule, or of the rule for a role."""

    source: SourceCode
    role: _Role

    @property
    def program(self) -> Program:
        """The program of the source."""
        return self.source.program

    @property
    def state(self) -> str:
        """What is kept between steps."""
        kept = ", ".join(self.source.slots) or "none"
        if self.program.scope == "element":
            kept += f" ({4 * len(self.program.slots)} bytes per float32 parameter)"
        return f"{self.role.state}: {kept}"

    def functions(self, without: list[str]) -> str:
        """Return the functions of the part."""
        source, code = self.source, self.program.code
        unpack = [
            (source.slots, "state"),
            (source.scalars, "scalars"),
            (source.uniforms, "uniforms"),
        ]
        result = (
            f"torch.zeros_like(g) + {source.result}" if code.result.is_scalar else source.result
        )
        texts = {
            "suffix": self.role.suffix,
            "whose": self.role.whose,
            "formula": f"\n\n    {self.program.rule}\n    " if self.role.suffix else "",
            "inits": _tuple(source.inits),
            "scalars": _indent([*source.scalar_lines, f"return {_tuple(source.scalars)}"]),
            "update": _indent(
                [
                    *(f"{assigned(names)} = {given}" for names, given in unpack if names),
                    *source.update_lines,
                    *_returned(result, _tuple(source.new_slots)),
                ]
            ),
        }
        return fill("part_template.py.txt", texts, without)


def _indent(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _returned(result: str, slots: str) -> list[str]:
    line = f"return {result}, {slots}"
    return [line] if len(line) < 96 else [f"update = {result}", f"return update, {slots}"]


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _scale(rule: Rule) -> str:
    """Return where to start the search for a learning rate."""
    names = {operator.name for operator in rule.operators}
    start = "updates are proportional to the gradient, as in SGD; start near SGD's learning rate"
    if names & {"sign", "sg", "sm1"}:
        start = "update entries are about 1, as in sign descent; start near Adam's learning rate"
    elif names & {"Adam", "RMSprop"}:
        start = "Adam includes a factor 0.003 and RMSprop a factor 0.03; start near 1"
    elif names & {"orth", "unit", "rows", "cols"} or names >= {"div", "sqrt"}:
        start = "updates are normalised; start near Adam's learning rate"
    return f"{start}, and tune it by powers of 3 on a short run"
