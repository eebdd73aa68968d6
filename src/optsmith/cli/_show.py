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
from optsmith.rules import Rule
from optsmith.space import spaces


def _simplified(rule: Rule) -> tuple[str, str]:
    """Return the simplified text, and the reason if simplification failed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SimplifyWarning)
        text = str(rule.simplify())
    return text, str(caught[-1].message) if caught else ""


def _number(x: float) -> float | None:
    return None if math.isnan(x) else x  # JSON has no NaN


def describe(rule: Rule) -> dict[str, Any]:
    """Return the output of `show` as plain data."""
    from optsmith.optim import Program
    from optsmith.screening import Screen, state_bytes_of, step_cost_of
    from optsmith.study import known_name

    screen, program = Screen(), Program(rule)
    result = screen(rule)
    simplified, note = _simplified(rule)
    return {
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
        "state": {"slots": program.slots, "bytes_per_parameter": state_bytes_of(rule)},
        "step_cost": step_cost_of(rule),
        "operations": dict(Counter(i.name for i in program.code.body)),
        "needs_total_steps": program.uses_time,
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


def _operations(counts: dict[str, int]) -> str:
    """Return the number and the kinds of element-wise operations per step."""
    names = ", ".join(f"{n} {name}" if n > 1 else name for name, n in counts.items())
    return f"{sum(counts.values())} per element and step: {names}" if counts else "none"


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
    rows += [("state", _state(facts)), ("operations", _operations(facts["operations"]))]
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
