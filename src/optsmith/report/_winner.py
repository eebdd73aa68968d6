"""Section of the winner: formula, meaning of its symbols, scores, and code that uses it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from optsmith._errors import RuleError
from optsmith.report._html import Content, Markup, code, section, tag
from optsmith.report._mathml import to_mathml
from optsmith.report._values import Goal, decimals_for, finite, fixed, plural, shortest
from optsmith.rules import Rule

EDGE = (
    "The best learning rate is the smallest or the largest of the grid; a better one may lie "
    "outside."
)

LONG = 45
"""Characters of a rule from which its formula is printed smaller."""

Fact = tuple[str, Content, Content]
"""Name, value and note."""


def parsed(text: str) -> Rule | None:
    """Return a rule, or None if its operators are not registered here."""
    try:
        return Rule.parse(text)
    except RuleError:
        return None


def formula(text: str) -> Markup:
    """Return a rule as a formula, or as its text if its operators are not registered here."""
    rule = parsed(text)
    return to_mathml(rule) if rule else tag("p", code(text), class_="plain-formula")


def copyable(text: str, what: str) -> Markup:
    """Return a line of code with a button that copies it."""
    button = tag("button", "Copy", type="button", hidden=True, aria_label=f"Copy {what}")
    # Browsers break lines after hyphens, which would split options.
    words = [tag("span", word) if "-" in word else word for word in re.split(r"(\s+)", text)]
    return tag("div", tag("pre", tag("code", words)), button, class_="copy")


def shell(argument: str) -> str:
    """Return an argument quoted for a shell."""
    if not any(character in argument for character in '"$`\\!'):
        return f'"{argument}"'
    return "'" + argument.replace("'", "'\\''") + "'"


def _score(name: str, found: Mapping[str, Any], goal: Goal) -> Fact:
    quantity = goal.quantity
    mean, spread = quantity.shown(found.get("score")), quantity.shown(found.get("spread"))
    decimals = decimals_for([mean], [spread])
    around = "" if spread is None else f" ± {fixed(spread, decimals)}"
    seeds = found.get("seeds")
    note = tag("small", f"mean over {plural(seeds, 'seed', 'seeds')}") if seeds else None
    return f"{name} {quantity.name}", fixed(mean, decimals) + around + quantity.suffix, note


def _facts(winner: Mapping[str, Any], goal: Goal) -> Markup:
    edge = tag("small", EDGE) if winner.get("at_edge") else None
    facts: list[Fact] = [
        ("learning rate", shortest(winner.get("lr")), edge),
        ("length", plural(winner.get("length"), "operator", "operators"), None),
        _score("search", winner["search"], goal),
    ]
    if winner.get("held_out"):
        facts.append(_score("held-out", winner["held_out"], goal))
    pairs = [tag("div", tag("dt", name), tag("dd", value, note)) for name, value, note in facts]
    return tag("dl", pairs, class_="facts")


def _glossary(text: str) -> Markup | None:
    rule = parsed(text)
    words = {operator.name: operator.words for operator in rule.operators} if rule else {}
    known = [(name, phrase) for name, phrase in words.items() if phrase]
    if not known:
        return None
    items = [tag("div", tag("dt", code(name)), tag("dd", phrase)) for name, phrase in known]
    return tag("dl", items, class_="glossary")


OPTIMIZER = (
    "from optsmith import Rule, RuleOptimizer\n\n"
    "rule = Rule.parse({rule})\n"
    "optimizer = RuleOptimizer(\n"
    "    model.parameters(), rule,\n    lr={lr}, total_steps=total_steps,\n)"
)
"""Code for tasks that use a rule as an optimizer."""


def filled(usage: str, rule: str, lr: float | None) -> str:
    """Return a task's code with the rule and the learning rate filled in."""
    rate = "lr" if lr is None else f"{lr:g}"
    return usage.replace("{rule}", json.dumps(rule)).replace("{lr}", rate)


def _usage(winner: Mapping[str, Any], usage: str) -> list[Content]:
    text = winner["rule"]
    python = filled(usage or OPTIMIZER, text, finite(winner.get("lr")))
    if usage:
        return [tag("h3", "Use it"), copyable(python, "the Python code")]
    return [
        tag("h3", "Use it"),
        tag(
            "div",
            tag("div", tag("p", "As a file that depends on torch only", class_="note"),
                copyable(f"optsmith export {shell(text)} -o my_optimizer.py", "the command")),
            tag("div", tag("p", "Or with Optsmith installed", class_="note"),
                copyable(python, "the Python code")),
            class_="usage",
        ),
    ]  # fmt: skip


def winner_section(data: Mapping[str, Any], goal: Goal) -> Markup:
    """Return the section of the winner, or a sentence that says why there is none."""
    winner, task = data.get("winner"), data.get("task") or {}
    title = "The rule it found" if data.get("finished") else "The best rule so far"
    if not winner:
        words = (
            "No rule was accepted: every candidate was screened out, failed, or did not score "
            "better than the threshold."
            if data.get("finished")
            else "No rule has been accepted yet."
        )
        return section("winner", title, tag("p", words, class_="verdict none"))
    simplified = winner.get("simplified")
    shorter = simplified and simplified != winner["rule"]
    verdict = data.get("verdict")
    return section(
        "winner",
        title,
        tag("div", formula(winner["rule"]), tabindex=0,
            class_="formula long" if len(winner["rule"]) > LONG else "formula"),
        tag("p", task["applied"], class_="note") if task.get("applied") else None,
        _glossary(winner["rule"]),
        copyable(winner["rule"], "the rule"),
        [tag("p", "Simplified, the same function:", class_="note"),
         tag("div", formula(simplified), class_="formula small", tabindex=0)] if shorter else None,
        tag("p", verdict, class_="verdict") if verdict else None,
        _facts(winner, goal),
        _usage(winner, task.get("usage") or ""),
    )  # fmt: skip
