"""Comparison of studies as SVG and HTML: best score so far against cost, and a table."""

from __future__ import annotations

from typing import Any

from optsmith.report._figure import Series, line_chart, style_sheet
from optsmith.report._html import Content, Markup, tag
from optsmith.report._values import MISSING, Goal, Quantity, count, duration, finite, significant
from optsmith.study import By, Study, StudyComparison, compare_studies

AXES: dict[By, str] = {"runs": "training steps, as full runs", "evaluations": "evaluations"}
"""Titles of the x axes."""

DARK = (
    "@media (prefers-color-scheme: dark) "
    "{ svg:root { background: #171513; } svg:root, body { color: #ebe6de; } }"
)


def goal_of(comparison: StudyComparison) -> Goal:
    """Return the quantity of the scores."""
    objective = comparison.objective
    return Goal(Quantity(objective.name, objective.unit), objective.direction == "minimize")


def bands(comparison: StudyComparison, by: By) -> list[Series]:
    """Return one line per group with a score, with a band if it has several studies."""
    shown = goal_of(comparison).quantity
    found = []
    for group in comparison.groups:
        points = [p for p in group.band(by) if finite(p.middle) is not None]
        if not points:
            continue
        sides = [
            [(p.cost, shown.factor * getattr(p, side)) for p in points]
            for side in ("middle", "low", "high")
        ]
        many = len(group.studies)
        name = f"{group.label} ({many} seeds: median and range)" if many > 1 else group.label
        found.append(Series(name, *sides) if many > 1 else Series(name, sides[0]))
    return found


def studies_svg(comparison: StudyComparison, by: By = "runs") -> Markup | None:
    """Return the best search score so far against cost; None if no study has a score."""
    series = bands(comparison, by)
    if not series:
        return None
    title = f"best {goal_of(comparison).axis()}"
    return line_chart(series, AXES[by], title, steps=True, ratio_for_log=5)


def history_chart(study: Study) -> Markup | None:
    """Return the best search score so far of one study."""
    return studies_svg(compare_studies([study]), "evaluations")


def table_heads(comparison: StudyComparison) -> list[str]:
    """Return the names of the columns of `table_cells`."""
    name, reported = comparison.objective.name, comparison.objective.reported.name
    return [
        "", "studies", f"search {name}", f"held-out {reported}", "against the best opponent",
        "evaluations", "full runs", "time",
    ]  # fmt: skip


def table_cells(comparison: StudyComparison) -> list[list[str]]:
    """Return one row of text per group; numbers are medians over its studies."""
    quantity = goal_of(comparison).quantity
    unit = "%" if quantity.factor == 1 else "points"

    def change(value: Any) -> str:
        text = significant(None if value is None else 100 * value, 2)
        return text if text == MISSING else f"{'+' if value > 0 else ''}{text} {unit}"

    return [
        [
            row["group"],
            count(row["studies"]),
            quantity.text(row["search score"]),
            quantity.text(row["held-out score"]),
            change(row["change"]),
            count(row["evaluations"]),
            significant(row["runs"]),
            duration(row["seconds"]),
        ]
        for row in comparison.rows()
    ]


def _content(comparison: StudyComparison) -> list[Content]:
    head = [tag("th", name, class_="number" if name else None) for name in table_heads(comparison)]
    body = [
        tag("tr", tag("th", name, scope="row"), [tag("td", cell, class_="number") for cell in rest])
        for name, *rest in table_cells(comparison)
    ]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", body), class_="rows")
    charts = [studies_svg(comparison, by) for by in AXES]
    scrolled = [tag("div", part, class_="scroll") for part in (table, *charts) if part]
    return [style_sheet("notebook.css"), scrolled]


def studies_html(comparison: StudyComparison) -> str:
    """Return a comparison of studies for a notebook."""
    return str(tag("div", _content(comparison), class_="optsmith"))


def studies_page(comparison: StudyComparison) -> str:
    """Return a comparison of studies as an HTML page."""
    title = f"{comparison.groups[0].studies[0].settings['task']}: comparison of studies"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} – Optsmith"),  # noqa: RUF001 - an en dash
        tag("style", "body { font-family: system-ui, sans-serif; margin: 2em; }", Markup(DARK)),
    )
    body = tag("body", tag("h1", title), tag("div", _content(comparison), class_="optsmith"))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def studies_file(comparison: StudyComparison) -> str | None:
    """Return the chart of a comparison as the text of an SVG file; None if there is no score."""
    drawing = studies_svg(comparison)
    if drawing is None:
        return None
    return str(drawing).replace("<style>", f"<style>{DARK}\n", 1) + "\n"
