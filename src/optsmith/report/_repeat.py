"""What it takes to repeat the search: the command, the settings, the versions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from optsmith.report._html import Content, Markup, section, tag
from optsmith.report._values import duration, finite
from optsmith.report._winner import copyable
from optsmith.searchers import searchers


def _text(value: Any) -> str:
    """Return a setting as one would write it."""
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


def search_command(settings: Mapping[str, Any]) -> str:
    """Return the command that makes the same study, as far as its settings tell."""
    words = ["optsmith", "search", settings["task"]]
    for name in ("preset", "algorithm", "space", "budget", "seed", "dedupe"):
        words += [f"--{name}", str(settings[name])]
    own = settings["algorithm"] not in searchers  # whose options the command does not know
    for name, value in settings["options"].items():
        flag = name.replace("_", "-")
        if own:
            words += ["--option", f"{name}={value}"]
        elif isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", str(value)]
    if settings["stack"] is not None:
        words += ["--stack", str(settings["stack"])]
    return shlex.join(words)


def repeat_section(data: Mapping[str, Any]) -> Markup | None:
    """Return the command, settings and versions, or None when nothing of it is known."""
    if not (data.get("command") or data.get("settings") or data.get("versions")):
        return None
    command, seconds = data.get("command"), finite(data.get("seconds"))
    peak = finite(data.get("peak_bytes"))
    memory = "" if peak is None else f", each of its processes at most {peak / 1e6:.0f} MB"
    took = None if seconds is None else f"The search took {duration(seconds)}{memory}."
    return section(
        "repeat",
        "Repeat it",
        copyable(command, "the command") if command else None,
        _list("Settings", data.get("settings") or {}),
        _list("Versions", data.get("versions") or {}),
        lead=took,
    )
