"""The report of a search as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from optsmith.report._card_section import card_section
from optsmith.report._checks import checks_section
from optsmith.report._curves import curves_section
from optsmith.report._front import front_section
from optsmith.report._history import history_section
from optsmith.report._html import Content, Markup, markup, tag
from optsmith.report._repeat import repeat_section
from optsmith.report._screened import early_stop_rate, screened_section, trained
from optsmith.report._table import final_section
from optsmith.report._tree import tree_section
from optsmith.report._values import Goal, count, duration
from optsmith.report._winner import winner_section

NAVIGATION = {
    "winner": "Answer",
    "final": "Comparison",
    "checks": "Robustness",
    "curves": "Curves",
    "history": "History",
    "front": "Length",
    "tree": "Super-tree",
    "screened": "Screening",
    "card": "Card",
    "repeat": "Repeat",
}

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M1 2q3 11 14 12' fill='none' stroke='%23c2410c' stroke-width='3' "
    "stroke-linecap='round'/%3E%3C/svg%3E"
)
"""The page's icon: a falling curve."""


def _file(name: str) -> str:
    return files("optsmith.report").joinpath(name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Return the content security policy: our own script and styles, no network access."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _head(title: str, script: str) -> Markup:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} – Optsmith"),  # noqa: RUF001 - an en dash
        tag("link", rel="icon", href=ICON),
        tag("style", Markup(_file("page.css"))),
    )


def _top(data: Mapping[str, Any], goal: Goal) -> Markup:
    task = data.get("task") or {}
    state = "Finished search" if data.get("finished") else "Unfinished search"
    words = f"{goal.quantity.name}, {goal.direction}"
    threshold = task.get("threshold")
    if threshold is not None:
        words += f"; accepted if better than {goal.quantity.text(threshold, 2)}"
    theme = tag("button", "Dark", type="button", id="theme", hidden=True)
    created = data.get("created")
    return tag(
        "header",
        tag("p", "Optsmith", tag("span", state), tag("span", created) if created else None, theme,
            class_="eyebrow"),
        tag("h1", data.get("title") or task.get("name") or "Search"),
        tag("p", task["description"], class_="lead") if task.get("description") else None,
        tag("p", "Goal: ", words, class_="note"),
    )  # fmt: skip


def _figures(data: Mapping[str, Any]) -> Markup:
    """Return the key figures of the search."""
    counts = data.get("counts") or {}
    figures = {
        "candidates drawn": count(counts.get("drawn")),
        "trained": count(trained(counts)),
        "accepted": count(counts.get("accepted")),
        "early-stop rate": early_stop_rate(counts),
        "time": duration(data.get("seconds")),
    }
    pairs = [tag("div", tag("dt", name), tag("dd", text)) for name, text in figures.items()]
    return tag("dl", pairs, class_="figures", aria_label="Key figures of the search")


def _warnings(warnings: list[str]) -> Markup | None:
    if not warnings:
        return None
    items = [tag("li", warning) for warning in warnings]
    return tag("aside", tag("strong", "Note"), tag("ul", items), class_="warnings")


def _sections(data: Mapping[str, Any], goal: Goal) -> dict[str, Markup]:
    history, final = data.get("history") or [], data.get("final") or {}
    winner = (data.get("winner") or {}).get("rule", "")
    reported = Goal.reported(data.get("task") or {})
    sections = {
        "winner": winner_section(data, goal),
        "final": final_section(data, reported),
        "checks": checks_section(data, reported),
        "curves": curves_section(final, winner),
        "history": history_section(history, goal),
        "front": front_section(history, goal),
        "tree": tree_section(data.get("tree") or [], goal),
        "screened": screened_section(data.get("counts") or {}),
        "card": card_section(data),
        "repeat": repeat_section(data),
    }
    return {anchor: content for anchor, content in sections.items() if content is not None}


def render(data: Mapping[str, Any]) -> str:
    """Return the report as the text of one HTML page.

    The page makes no network requests. All values in `data` are escaped, so that the browser runs
    only our own script, independent of the content of rules, messages and names.

    Args:
        data: The study as plain data, as returned by `report_data`. Numbers may be None, lists may
            be empty, and `final` and `winner` may be missing.
    """
    goal = Goal.of(data.get("task") or {})
    sections = _sections(data, goal)
    script = _file("page.js")
    links = [tag("a", NAVIGATION[anchor], href=f"#{anchor}") for anchor in sections]
    first, *rest = sections.values()
    body: list[Content] = [
        tag("a", "Skip to the answer", href="#winner", class_="skip"),
        _top(data, goal),
        tag("nav", links, aria_label="Sections"),
        tag("main", first, _warnings(data.get("warnings") or []), _figures(data), rest),
        tag("div", id="tip", role="status", hidden=True),
        tag("script", Markup(script)),
    ]
    title = data.get("title") or "Search"
    page = tag("html", _head(title, script), tag("body", body), lang="en")
    return f"<!doctype html>\n{markup(page)}\n"
