"""List of the opponents that left the race before the final comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optsmith.report._html import Markup, tag
from optsmith.report._values import Goal, percent, plural, shortest


def raced_list(raced: Sequence[Mapping[str, Any]], goal: Goal) -> Markup | None:
    """Return the opponents that left the race early, folded."""
    if not raced:
        return None
    lines = [
        tag(
            "tr",
            tag("td", left["recipe"]),
            tag("td", percent(left.get("fidelity") or 0.0, 1.0), class_="number"),
            tag("td", left.get("reason") or goal.quantity.text(left.get("score")), class_="number"),
            tag("td", shortest(left.get("lr")), class_="number"),
        )
        for left in raced
    ]
    heads = [
        tag("th", "opponent", scope="col"),
        tag("th", "left after", tag("small", "of the run"), scope="col", class_="number"),
        tag("th", f"{goal.quantity.name} there", scope="col", class_="number"),
        tag("th", "learning rate", scope="col", class_="number"),
    ]
    many = plural(len(raced), "opponent", "opponents")
    return tag(
        "details",
        tag("summary", f"{many} left the race earlier"),
        tag("div", tag("table", tag("thead", tag("tr", heads)), tag("tbody", lines)),
            class_="scroll", tabindex=0, role="region", aria_label="The race; scrolls sideways"),
        class_="raced",
    )  # fmt: skip
