"""Section of the answer: verdict, evidence, the recommended recipe and the code that uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optsmith._errors import RuleError
from optsmith.report._evidence import (
    change_text,
    evidence_text,
    first_sentence,
    share_interval,
    share_text,
    standing,
    time_share,
)
from optsmith.report._html import Content, Markup, code, section, tag
from optsmith.report._mathml import to_mathml
from optsmith.report._rows import recipe_name
from optsmith.report._usage import copyable, usage
from optsmith.report._values import Goal, decimals_for, finite, fixed, plural, shortest
from optsmith.rules import Rule

EDGE = (
    "The best learning rate is the smallest or the largest of the grid; a better one may lie "
    "outside."
)

LONG = 45
"""Characters of a rule from which its formula is printed smaller."""

LABELS = {
    "better": "Better than the best opponent",
    "worse": "The best opponent is better",
    "open": "Not decided",
    "mixed": "Objective and held-out metric disagree",
}

Fact = tuple[str, Content, Content]
"""Name, value and note."""


def parsed(text: str) -> Rule | None:
    """Return a rule, or None if its operators are not registered here."""
    try:
        return Rule.parse(text)
    except RuleError:
        return None


def formula(text: str, size: str = "") -> Markup:
    """Return a rule as a formula, or as its text if its operators are not registered here."""
    rule = parsed(text)
    shown = to_mathml(rule) if rule else tag("p", code(text), class_="plain-formula")
    size = size or ("long" if len(text) > LONG else "")
    return tag("div", shown, tabindex=0, class_=f"formula {size}".strip())


def badge(known: str) -> Markup | None:
    """Return the label of a known rule."""
    return tag("span", f"known: {known}", class_="badge") if known else None


def verdict(data: Mapping[str, Any]) -> Markup | None:
    """Return the verdict with its first sentence in large type; None without one."""
    first, rest = first_sentence(data.get("verdict") or "")
    if not first:
        return None
    claim = data.get("claim")
    state = standing(claim) if claim else ""
    return tag(
        "div",
        tag("p", LABELS[state], class_="label") if state else None,
        tag("p", first, class_="first"),
        tag("p", rest) if rest else None,
        class_=f"verdict {state}".strip(),
    )


def facts_list(facts: list[Fact]) -> Markup:
    """Return facts in large type, with notes below them."""
    pairs = [
        tag("div", tag("dt", name), tag("dd", value, tag("small", note) if note else None))
        for name, value, note in facts
    ]
    return tag("dl", pairs, class_="facts")


def _evidence(claim: Mapping[str, Any], goal: Goal) -> Markup:
    """Return the best rule against the best opponent in numbers."""
    metrics = [(goal.metric(name), paired) for name, paired in claim["metrics"].items()]
    facts: list[Fact] = [
        (each.name, change_text(paired, each.unit), evidence_text(paired, each.unit))
        for each, paired in [(goal.quantity, claim["paired"]), *metrics]
    ]
    speed_up = claim.get("speed_up")
    if speed_up:
        interval = share_interval(speed_up)
        words = f"95 % interval {interval}, " if interval else ""
        seeds = plural(speed_up.get("seeds"), "seed", "seeds")
        facts.append(("steps for the same result", share_text(speed_up), words + seeds))
    if time := time_share(claim):
        ratio = f"one step takes {fixed(claim['step_ratio'], 2)} times as long"
        facts.append(("time for the same result", time, ratio))
    return facts_list(facts)


def _score(name: str, found: Mapping[str, Any], goal: Goal) -> Fact:
    quantity = goal.quantity
    mean, spread = quantity.shown(found.get("score")), quantity.shown(found.get("spread"))
    decimals = decimals_for([mean], [spread])
    around = "" if spread is None else f" ± {fixed(spread, decimals)}"
    seeds = found.get("seeds")
    note = f"mean over {plural(seeds, 'seed', 'seeds')}" if seeds else None
    return f"{name} {quantity.name}".strip(), fixed(mean, decimals) + around + quantity.suffix, note


def _glossary(text: str) -> Markup | None:
    rule = parsed(text)
    words = {operator.name: operator.words for operator in rule.operators} if rule else {}
    known = [(name, phrase) for name, phrase in words.items() if phrase]
    if not known:
        return None
    items = [tag("div", tag("dt", code(name)), tag("dd", phrase)) for name, phrase in known]
    return tag("dl", items, class_="glossary")


def _rule(data: Mapping[str, Any], goal: Goal, size: str = "") -> list[Content]:
    """Return the best rule: simplified formula, symbols, the form that was found, and facts."""
    winner, task = data["winner"], data.get("task") or {}
    shown = winner.get("simplified") or winner["rule"]
    facts: list[Fact] = [
        ("learning rate", shortest(winner.get("lr")), EDGE if winner.get("at_edge") else None),
        ("length", plural(winner.get("length"), "operator", "operators"), None),
        _score("search", winner["search"], goal),
    ]
    if winner.get("held_out"):
        facts.append(_score("held-out", winner["held_out"], Goal.reported(task)))
    raw = None
    if shown != winner["rule"]:
        raw = tag(
            "details",
            tag("summary", "The rule as the search found it, the same function"),
            formula(winner["rule"], "small"),
            copyable(winner["rule"], "the rule as found"),
        )
    return [
        formula(shown, size),
        tag("p", task["applied"], class_="note") if task.get("applied") else None,
        _glossary(shown),
        copyable(shown, "the rule"),
        raw,
        facts_list(facts),
    ]


def _opponent(data: Mapping[str, Any], goal: Goal) -> list[Content]:
    """Return the opponent that is recommended."""
    recipe = data["recommended"]
    facts: list[Fact] = []
    if finite(recipe.get("lr")) is not None:
        facts.append(("learning rate", shortest(recipe["lr"]), None))
    rows = (data.get("final") or {}).get("rows") or []
    for row in rows:
        if row["label"] == recipe["recipe"]:
            facts.append(_score("held-out", {**row, "seeds": row.get("n")}, goal))
    return [
        tag("div", tag("p", recipe_name(recipe), class_="plain-formula"), class_="formula"),
        tag("p", "An opponent; its learning rate and its schedule were tuned.", class_="note"),
        facts_list(facts),
    ]


def winner_section(data: Mapping[str, Any], goal: Goal) -> Markup:
    """Return the section of the answer, or a sentence that says why there is none."""
    winner, claim = data.get("winner"), data.get("claim")
    finished, reported = data.get("finished"), Goal.reported(data.get("task") or {})
    title = "The rule it found" if finished else "The best rule so far"
    if not winner and data.get("recommended"):
        heading = tag("h3", "Recommended: a tuned opponent")
        opponent = [heading, *_opponent(data, reported), *usage(data)]
        return section("winner", "The answer", verdict(data), opponent)
    if not winner:
        words = (
            "No rule was accepted: every candidate was screened out, failed, or did not score "
            "better than the threshold."
            if finished
            else "No rule has been accepted yet."
        )
        return section("winner", title, tag("p", words, class_="verdict none"))
    known = badge((claim or winner).get("known") or "")
    recommended = data.get("recommended") or {}
    content: list[Content]
    if recommended.get("kind") == "baseline":
        content = [
            tag("h3", "Recommended: a tuned opponent"),
            _opponent(data, reported),
            usage(data),
            tag("h3", "The best rule of the search", known),
            _rule(data, goal, "small"),
        ]
    else:
        heading = tag("h3", "Recommended: the best rule of the search", known)
        content = [heading if claim else known, _rule(data, goal), usage(data)]
    return section(
        "winner",
        "The answer" if claim else title,
        verdict(data),
        _evidence(claim, reported) if claim else None,
        content,
    )
