"""Section for repeating the search: command, settings and versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from optsmith.report._html import Content, Markup, section, tag
from optsmith.report._usage import copyable
from optsmith.report._values import duration, finite


def _text(value: Any) -> str:
    """Return the value of a setting as text."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]  # noqa: RUF001 - an en dash
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return json.dumps(value, ensure_ascii=False, default=str)


def _list(title: str, items: Mapping[str, Any]) -> list[Content]:
    if not items:
        return []
    pairs = [
        tag("div", tag("dt", str(name).replace("_", " ")), tag("dd", _text(value)))
        for name, value in items.items()
    ]
    return [tag("h3", title), tag("dl", pairs, class_="settings")]


def repeat_section(data: Mapping[str, Any]) -> Markup | None:
    """Return the section, or None if neither command, settings nor versions are known."""
    if not (data.get("command") or data.get("settings") or data.get("versions")):
        return None
    command, seconds = data.get("command"), finite(data.get("seconds"))
    peak = finite(data.get("peak_bytes"))
    memory = "" if peak is None else f" and at most {peak / 1e6:.0f} MB per process"
    took = None if seconds is None else f"The search took {duration(seconds)}{memory}."
    return section(
        "repeat",
        "Repeat the search",
        copyable(command, "the command") if command else None,
        _list("Settings", data.get("settings") or {}),
        _list("Versions", data.get("versions") or {}),
        lead=took,
    )
