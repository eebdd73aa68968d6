"""Figure of the paired differences: each recipe against the best opponent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from optsmith.report._charts import Scale, at, scale_for, tick_labels
from optsmith.report._evidence import Paired, change_text, interval_text, printed
from optsmith.report._html import Content, Markup, code, tag
from optsmith.report._rows import BEST_RULE, Row, brief_name_of, grouped, is_rule
from optsmith.report._values import Goal, finite, finites


def shown_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rules, and each opponent with its best schedule, best first.

    Rows without a change are left out: the best opponent, and recipes without a score.
    """
    known = [row for row in rows if finite((row.get("change") or {}).get("change")) is not None]
    rules, opponents = grouped(known)
    return [known[i] for i in sorted([*rules, *(group[0] for group in opponents)])]


def _scale(changes: Sequence[Paired], minimize: bool) -> Scale:
    """Return a scale around zero with all gains and small losses; large losses are outside."""
    reach = 1.5 * median(abs(paired["change"]) for paired in changes)
    near = [c for c in changes if (c["change"] if minimize else -c["change"]) <= reach]
    ends = [v for c in near for v in finites(c.get(key) for key in ("change", "low", "high"))]
    scale = scale_for([0.0, *ends])
    return Scale(scale.low, scale.high)


def _mark(paired: Paired, x: Scale) -> list[Content]:
    """Return a change as a dot and its interval as a line, or an arrow if it is outside."""
    change, low, high = (finite(paired.get(key)) for key in ("change", "low", "high"))
    if change is None:
        return []
    if not x.holds(change):
        right = change > x.high
        arrow, place = ("▸", "100%") if right else ("◂", "0%")
        return [tag("text", arrow, x=place, y="50%", dy="0.35em", class_="end" if right else None)]
    around = None
    if low is not None and high is not None:
        around = tag("line", x1=at(x(low)), x2=at(x(high)), y1="50%", y2="50%", class_="range")
    return [around, tag("circle", cx=at(x(change)), cy="50%", r=4.5)]


def _drawn(paired: Paired, unit: str) -> Paired:
    """Return a comparison with its numbers as they are printed: in percent, or in points."""
    factor, _ = printed(paired, unit)
    numbers = {key: finite(paired.get(key)) for key in ("change", "low", "high")}
    return {**paired, **{k: None if v is None else factor * v for k, v in numbers.items()}}


def _line(row: Row, x: Scale, unit: str) -> Markup:
    paired, name = row["change"], brief_name_of(row)
    kind = "whisker ours" if is_rule(row) else "whisker"
    kind += " open" if paired.get("better") is None else ""
    zero = tag("line", x1=at(x(0.0)), x2=at(x(0.0)), y1=0, y2="100%", class_="zero")
    return tag(
        "li",
        tag("span", code(name) if is_rule(row) and name != BEST_RULE else name, class_="what"),
        tag("svg", zero, _mark(_drawn(paired, unit), x), class_=kind, aria_hidden="true"),
        tag("span", change_text(paired, unit), class_="many"),
        tag("span", interval_text(paired, unit), class_="share"),
    )


def _axis(x: Scale, minimize: bool, suffix: str) -> Markup:
    ticks = x.ticks(5)
    labels = tick_labels(ticks, log=False)
    sign = suffix if suffix == " %" else ""  # a longer one is said once
    words = [
        tag("text", f"{label}{sign}", x=at(x(tick)), y="1.1em", class_="tick middle")
        for tick, label in zip(ticks, labels, strict=True)
    ]
    way = "← better" if minimize else "better →"
    better = tag("span", way if sign else f"{way},{suffix}", class_="what note")
    return tag("li", better, tag("svg", words, aria_hidden="true", class_="ticks"), class_="axis")


def differences(final: Mapping[str, Any], goal: Goal) -> Markup | None:
    """Return the figure, or None if nothing was compared with an opponent.

    Args:
        final: The final comparison.
        goal: The quantity of the scores.
    """
    rows, unit = shown_rows(final.get("rows") or []), goal.quantity.unit
    if not rows:
        return None
    x = _scale([_drawn(row["change"], unit) for row in rows], goal.minimize)
    caption = tag(
        "figcaption",
        "Change relative to ",
        tag("strong", final.get("opponent") or "the best opponent"),
        ", paired by seed, with its 95 % interval. Hollow dots are not decided; of each opponent "
        "only the best schedule is drawn.",
        class_="note",
    )
    lines = [_line(row, x, unit) for row in rows]
    axis = _axis(x, goal.minimize, printed(rows[0]["change"], unit)[1])
    return tag("figure", caption, tag("ol", lines, axis, class_="differences"))
