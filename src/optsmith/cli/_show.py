"""`optsmith show`: properties of a rule that need no training."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from typing import Any

import click

from optsmith._errors import SimplifyWarning
from optsmith._zoo import zoo
from optsmith.cli._rules import json_option, rule_argument
from optsmith.rules import Rule, Whole, depends_on_role, for_role
from optsmith.space import spaces


def _simplified(rule: Rule) -> tuple[str, str]:
    """Return the simplified text, and the reason if simplification failed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SimplifyWarning)
        text = str(rule.simplify())
    return text, str(caught[-1].message) if caught else ""


def _number(x: float) -> float | None:
    return None if math.isnan(x) else x  # JSON has no NaN


def _part(rule: Rule) -> dict[str, Any]:
    """Return state and operations of a rule, or of the rule for a role."""
    from optsmith.optim import Program
    from optsmith.screening import state_bytes_of

    program = Program(rule)
    element = [i.name for i in program.code.body if i.scope == "element"]
    whole = [i.function.name for i in program.code.body if isinstance(i.function, Whole)]
    copies = ("getitem", "clone")  # of the state of operators on whole tensors
    return {
        "rule": str(rule),
        "state": {"slots": program.slots, "bytes_per_parameter": state_bytes_of(rule)},
        "operations": dict(Counter(name for name in element if name not in copies)),
        "tensor_operations": dict(Counter(whole)),
    }


def describe(rule: Rule) -> dict[str, Any]:
    """Return the output of `show` as plain data.

    A rule with `hidden` has `roles`: state and operations for hidden matrices and for others. All
    other rules have them themselves.
    """
    from optsmith.screening import Screen, step_cost_of
    from optsmith.study import known_name

    if depends_on_role(rule):
        parts = {"hidden": for_role(rule, is_hidden=True), "others": for_role(rule, False)}
        work: dict[str, Any] = {"roles": {role: _part(part) for role, part in parts.items()}}
    else:
        work = {**_part(rule), "roles": {}}
    screen = Screen()
    result = screen(rule)
    simplified, note = _simplified(rule)
    return {
        **work,
        "rule": str(rule),
        "zoo": [name for name, entry in zoo.items() if entry.rule == rule],
        "known": known_name(rule),
        "length": rule.length,
        "simplified": simplified,
        "simplify_note": note,
        "latex": rule.latex(),
        "tree": rule.tree(),
        "spaces": {
            name: {"contains": space.contains(rule), "why_not": space.why_not(rule)}
            for name, space in spaces.items()
        },
        "step_cost": step_cost_of(rule),
        "needs_total_steps": rule.uses("time"),
        "screening": {
            "ok": result.ok,
            "reason": result.reason,
            "cosine": _number(result.cosine),
            "cosine_above": screen.descent,
            "trajectory_cosine": _number(result.trajectory_cosine),
            "trajectory_cosine_above": screen.trajectory,
            "fingerprint": result.fingerprint,
            "scale_fingerprint": result.scale_fingerprint,
        },
    }


def _state(facts: dict[str, Any]) -> str:
    slots, size = facts["state"]["slots"], facts["state"]["bytes_per_parameter"]
    return f"{', '.join(slots)}: {size:g} bytes per parameter" if slots else "none"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {name}" if n > 1 else name for name, n in counts.items())


def _operations(facts: dict[str, Any]) -> str:
    """Return the number and the kinds of operations per step."""
    element, whole = facts["operations"], facts["tensor_operations"]
    texts = (
        [f"{sum(element.values())} per element and step: {_counted(element)}"] if element else []
    )
    texts += [f"on whole tensors: {_counted(whole)}"] if whole else []
    return "; ".join(texts) or "none"


def _work(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines on state and operations, one per role."""
    rows = []
    for label, text in (("state", _state), ("operations", _operations)):
        parts = [f"{role}: {text(part)}" for role, part in facts["roles"].items()]
        first, *others = parts or [text(facts)]
        rows += [(label, first), *(("", other) for other in others)]
    return rows


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the label and the text of each line."""
    rows = [("rule", facts["rule"])]
    rows += [("zoo", f"{n}: {zoo[n].note} ({zoo[n].source})") for n in facts["zoo"]]
    if facts["known"] and not facts["zoo"]:
        rows.append(("known as", facts["known"]))
    if facts["simplified"] != facts["rule"]:
        rows.append(("simplified", facts["simplified"]))
    elif facts["simplify_note"]:
        rows.append(("simplified", f"no: {facts['simplify_note']}"))
    rows += [("length", str(facts["length"])), ("LaTeX", facts["latex"])]
    for name, answer in facts["spaces"].items():
        text = "yes" if answer["contains"] else f"no: {answer['why_not']}"
        rows.append((f"in {name}", text))
    rows += _work(facts)
    rows.append(("step cost", f"{facts['step_cost']:.2f} times Adam's, by a model"))
    s = facts["screening"]
    rows.append(("screening", "passes" if s["ok"] else f"refused: the rule {s['reason']}"))
    for label, key in (("descent", "cosine"), ("trajectory", "trajectory_cosine")):
        if s[key] is not None:
            rows.append((label, f"cosine {s[key]:.3f} (must exceed {s[key + '_above']:g})"))
    return [*rows, ("fingerprint", s["fingerprint"])]


@click.command()
@rule_argument
@json_option
def show(rule: Rule, as_json: bool) -> None:
    """Show formula, tree, state and screening of RULE.

    RULE is a zoo name or a text such as "ld*sign(m1) - Adam".
    """
    facts = describe(rule)
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for label, text in _rows(facts):
        click.echo(f"{label:<12} {text}")
    click.echo("\n" + facts["tree"])
