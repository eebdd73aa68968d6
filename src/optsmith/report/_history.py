"""Section of the score history: all evaluations in order, and the best score so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from optsmith.report._charts import (
    Scale,
    at,
    border_tick,
    chart,
    dot,
    line_key,
    scale_for,
    stair,
    stretched,
    x_axis,
    y_axis,
)
from optsmith.report._html import Content, Markup, section, tag
from optsmith.report._values import Goal, finite, plural, shortest, significant

Entry = Mapping[str, Any]

STATUS = {
    "ok": "accepted",
    "rejected": "trained, but not better than the threshold",
    "early_stopped": "stopped early at every learning rate",
    "diverged": "diverged",
    "failed": "failed",
    "timed_out": "timed out",
    "lost": "lost by the machine",
}
"""Description of each status."""


def accepted(history: Sequence[Entry]) -> list[Entry]:
    """Return the evaluations that are ranked: accepted, with a score, at the highest fidelity."""
    scored = [e for e in history if e["status"] == "ok" and finite(e["score"]) is not None]
    highest = max(map(_fidelity, scored), default=1.0)
    return [entry for entry in scored if _fidelity(entry) == highest]


def _fidelity(entry: Entry) -> float:
    return float(entry.get("fidelity") or 1.0)


def tip(entry: Entry, goal: Goal) -> str:
    """Return the tooltip of an evaluation."""
    lines = [str(entry["rule"])]
    if finite(entry["score"]) is not None:
        lines.append(f"{goal.quantity.name} {goal.quantity.text(entry['score'])}")
    if entry["status"] != "ok":
        lines.append(STATUS.get(entry["status"], str(entry["status"])))
    if finite(entry.get("lr")) is not None:
        edge = ", at the edge of the grid" if entry.get("at_edge") else ""
        lines.append(f"learning rate {shortest(entry['lr'])}{edge}")
    if _fidelity(entry) < 1:
        lines.append(f"trained for {_fidelity(entry):.0%} of the run")
    where = f", {entry['phase']}" if entry.get("phase") else ""
    return "\n".join([*lines, f"evaluation {entry['n']}{where}"])


def improvements(entries: Sequence[Entry], goal: Goal) -> list[Entry]:
    """Return the entries that are better than all entries before them."""
    found: list[Entry] = []
    for entry in entries:
        if not found or goal.cost(entry["score"]) < goal.cost(found[-1]["score"]):
            found.append(entry)
    return found


def radius_for(many: int) -> float:
    """Return the radius of dots, smaller if there are many."""
    return 3.5 if many <= 250 else 2.5 if many <= 800 else 1.8


def _bands(history: Sequence[Entry], x: Scale) -> list[Content]:
    """Return the phases of the search as shaded bands with their names."""
    runs = [(phase, list(run)) for phase, run in groupby(history, lambda e: e.get("phase", ""))]
    if len(runs) < 2:
        return []
    bands: list[Content] = []
    for i, (phase, run) in enumerate(runs):
        left, right = x(run[0]["n"] - 0.5), x(run[-1]["n"] + 0.5)
        width = right - left
        class_ = "band odd" if i % 2 else "band"
        bands.append(tag("rect", x=at(left), y=0, width=at(width), height="100%", class_=class_))
        if not phase or width < 4:
            continue
        name = phase[:1].upper() + phase[1:] if width >= 15 else phase.partition(" ")[2]
        middle = at(round(left + width / 2, 2))
        bands.append(tag("text", name, x=middle, y=0, dy=-7, class_="tick middle"))
    return bands


def _marks(
    history: Sequence[Entry], best: Sequence[Entry], goal: Goal, x: Scale, y: Scale
) -> list[Content]:
    radius = radius_for(len(history))
    records = {entry["n"] for entry in best}
    full = {entry["n"] for entry in accepted(history)}
    marks: list[Content] = []
    for entry in history:
        score, words = goal.quantity.shown(entry["score"]), tip(entry, goal)
        drawable = entry["status"] in ("ok", "rejected") and score is not None
        if not drawable or score is None or not y.holds(score):
            marks.append(border_tick(x(entry["n"]), goal.minimize, words))
        elif entry["n"] in records:
            marks.append(dot(x(entry["n"]), y(score), words, radius + 1, "dot record"))
        else:
            class_ = "dot" if entry["n"] in full else "dot hollow"
            marks.append(dot(x(entry["n"]), y(score), words, radius, class_))
    return marks


def _summary(history: Sequence[Entry], best: Sequence[Entry], goal: Goal) -> str:
    """Return the history in one sentence."""
    many = plural(len(history), "evaluation", "evaluations")
    if best:
        score = goal.quantity.text(best[-1]["score"])
        return f"{many}; number {best[-1]['n']} has the best score, {score}."
    ends = Counter(STATUS.get(entry["status"], entry["status"]) for entry in history)
    return f"{many}, none accepted: {', '.join(f'{n} {words}' for words, n in ends.items())}."


def _drawing(
    history: Sequence[Entry], best: Sequence[Entry], scores: Sequence[float], goal: Goal
) -> list[Content]:
    """Return everything inside the plot."""
    y = scale_for(scores, 5 if goal.minimize else 100)
    x = Scale(history[0]["n"] - 0.5, history[-1]["n"] + 0.5)
    ticks = [tick for tick in x.ticks(8) if tick == int(tick)]
    marks: list[Content] = [
        _bands(history, x),
        y_axis(y, goal.axis()),
        x_axis(x, "evaluation", ticks),
    ]
    if best:
        shown = [goal.quantity.shown(entry["score"]) or 0.0 for entry in best]
        places = [(x(e["n"]), y(score)) for e, score in zip(best, shown, strict=True)]
        label = {"x": "100%", "y": at(places[-1][1]), "dx": "6", "dy": "0.32em"}
        marks.append(stretched(stair(places, 100.0, "best")))
        marks.append(tag("text", significant(shown[-1]), class_="value", **label))
    return [*marks, _marks(history, best, goal, x, y)]


def history_section(history: Sequence[Entry], goal: Goal) -> Markup | None:
    """Return the section of the score history, or None before the first evaluation."""
    if not history:
        return None
    entries = accepted(history)
    best = improvements(entries, goal)
    sentence = _summary(history, best, goal)
    shown = (goal.quantity.shown(entry["score"]) for entry in entries or history)
    scores = [score for score in shown if score is not None]
    figure = None
    if scores:
        marks = _drawing(history, best, scores, goal)
        legend = _legend(history)
        figure = chart(
            "history-chart", "Score history", sentence, marks, after=legend, kind="labelled"
        )
    lead = f"All rules that were trained, in order. {sentence}"
    return section("history", "Score history", figure, lead=lead)


def _legend(history: Sequence[Entry]) -> Markup:
    statuses = {entry["status"] for entry in history}
    items = [("record", "a new best"), ("dot", "accepted")]
    hollow = ["not better than the threshold"] if "rejected" in statuses else []
    hollow += ["shorter runs"] if len(set(map(_fidelity, history))) > 1 else []
    if hollow:
        items.append(("hollow", " or ".join(hollow)))
    if statuses - {"ok", "rejected"}:
        items.append(("rug", "no score: stopped early, diverged or failed"))
    keys = [tag("li", tag("i", class_=f"key {kind}"), words) for kind, words in items]
    return tag("ul", tag("li", line_key("best"), "best so far"), keys, class_="legend")
