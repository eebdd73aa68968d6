"""Section of the speed-up, of the parts of the winner, and of the winner under other settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optsmith.report._ablation import ablation
from optsmith.report._evidence import (
    change_text,
    interval_text,
    share_interval,
    share_text,
    time_share,
)
from optsmith.report._html import Content, Markup, code, section, tag
from optsmith.report._values import MISSING, Goal, count, finite, plural


def _bar(name: str, class_: str, share: float, *, text: str, interval: Content = None) -> Markup:
    """Return one row: a label, a bar, and its length as text."""
    bar = tag("i", style=f"left:0;width:{100 * min(1.0, share):.2f}%", class_=class_)
    return tag(
        "li",
        tag("span", name, class_="what"),
        tag("span", bar, interval, class_="track"),
        tag("span", text, class_="many"),
    )


def _speed_up(claim: Mapping[str, Any]) -> list[Content]:
    """Return the shares of the opponent's steps and time as bars."""
    speed_up = claim.get("speed_up")
    share = finite((speed_up or {}).get("share"))
    if not speed_up or share is None:
        return []
    low, high = finite(speed_up.get("low")), finite(speed_up.get("high"))
    interval = None
    if share_interval(speed_up) and low is not None and high is not None:
        left, right = max(0.0, low), min(1.0, high)
        style = f"left:{100 * left:.2f}%;width:{100 * (right - left):.2f}%"
        interval = tag("b", style=style, class_="interval")
    words = share_interval(speed_up)
    text = share_text(speed_up) + (f" ({words})" if words else "")
    rows = [
        _bar(f"{claim['opponent']}, full run", "screen", 1.0, text="100 %"),
        _bar("best rule, in steps", "accepted", share, text=text, interval=interval),
    ]
    time, ratio = time_share(claim), finite(claim.get("step_ratio"))
    if time and ratio is not None:
        rows.append(_bar("best rule, in time", "known", share * ratio, text=time))
    seeds = plural(speed_up.get("seeds"), "seed", "seeds")
    return [
        tag("h3", "Training for the same result"),
        tag("ol", rows, class_="funnel shares"),
        tag("p", "The best rule was trained at shorter horizons, with its decays scaled to them, "
            f"until it just matched the opponent's full run; 95 % interval, {seeds}.",
            class_="note"),
    ]  # fmt: skip


def _table(claim: Mapping[str, Any], goal: Goal) -> list[Content]:
    """Return the best rule at other learning rates and horizons."""
    checks, unit = claim.get("checks") or [], goal.quantity.unit
    if not checks:
        return []
    rows = [
        tag(
            "tr",
            tag("th", check["setting"], scope="row"),
            tag("td", "the rule" if check["against"] == claim["rule"] else code(check["against"])),
            tag("td", change_text(check["paired"], unit), class_="number"),
            tag("td", interval_text(check["paired"], unit) or MISSING, class_="number spread"),
            tag("td", count(check["paired"].get("seeds")), class_="number"),
        )
        for check in checks
    ]
    heads = [
        tag("th", "setting", scope="col"),
        tag("th", "against", scope="col"),
        tag("th", goal.quantity.name, tag("small", goal.direction), scope="col", class_="number"),
        tag("th", "95 % interval", scope="col", class_="number"),
        tag("th", "seeds", scope="col", class_="number"),
    ]
    return [
        tag("h3", "The best rule under other settings"),
        tag("div", tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="lines"),
            class_="scroll", tabindex=0, role="region", aria_label="Checks; scrolls sideways"),
    ]  # fmt: skip


def checks_section(data: Mapping[str, Any], goal: Goal) -> Markup | None:
    """Return the section, or None if neither the speed-up nor other settings were measured."""
    claim = data.get("claim") or {}
    content = [*_speed_up(claim), *ablation(claim, goal), *_table(claim, goal)]
    return section("checks", "Speed-up and robustness", content) if content else None
