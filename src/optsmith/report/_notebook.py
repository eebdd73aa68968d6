"""HTML of studies, findings and comparisons for notebooks: no script, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optsmith.evaluation import (
    Claim,
    Comparison,
    Evaluation,
    mean_and_spread,
    named_or,
    shown,
)
from optsmith.optim import is_baseline
from optsmith.report._answer import changes, opponent_of
from optsmith.report._evidence import change_text
from optsmith.report._figure import Series, line_chart, style_sheet
from optsmith.report._html import Content, Markup, code, tag
from optsmith.report._rows import BEST_RULE
from optsmith.report._studies import history_chart
from optsmith.report._values import finite, plural, shortest
from optsmith.report._winner import formula
from optsmith.study import Finding, Study

ROWS = 8
"""Rows of the table of a study; the others are in its report."""

CURVES = 5
"""Lines in the chart of learning curves."""


def block(*content: Content) -> str:
    """Return the output of a cell."""
    return str(tag("div", style_sheet("notebook.css"), content, class_="optsmith"))


def study_html(study: Study) -> str:
    """Return a study for a notebook: verdict, best rule, table and learning curves."""
    state = "finished" if study.finished else "unfinished; the same call resumes it"
    head = tag(
        "p",
        tag("b", study.settings["task"]),
        f" · {study.settings['algorithm']} search, seed {study.settings['seed']}"
        f" · {plural(len(study.records), 'evaluation', 'evaluations')} · {state}",
    )
    final = study.final
    if not study.best(1):
        words = tag("p", study.verdict or "No rule was accepted.", class_="verdict")
        return block(head, words, *([_table(final), _curves(final.rows)] if final.rows else []))
    best = study.best()
    parts: list[Content] = [head]
    if study.verdict:
        parts.append(tag("p", study.verdict, class_="verdict"))
    if study.recommended.recipe != best.recipe:
        name, lr = study.recommended.recipe, shortest(study.recommended.lr)
        parts.append(tag("p", tag("b", "Recommended: "), code(name), f", learning rate {lr}"))
        parts.append(tag("p", tag("b", "Best rule:")))
    parts.append(_rule(best, final, study.objective.name))
    if final.rows:
        parts.append(_table(final, study.claim, best.recipe, ROWS))
        parts.append(_curves(_compared(final, study.claim, best.recipe)))
    else:
        parts.append(history_chart(study))
    return block(*parts)


def finding_html(finding: Finding) -> str:
    """Return a finding for a notebook."""
    return block(_rule(finding))


def comparison_html(comparison: Comparison) -> str:
    """Return a comparison for a notebook: table and learning curves."""
    return block(_table(comparison), _curves(comparison.rows))


def _rule(
    finding: Finding, final: Comparison | None = None, searched: str = "score"
) -> list[Content]:
    """Return formula, text and scores of a finding.

    Args:
        finding: The finding.
        final: The final comparison, which has the name and the units of held-out scores.
        searched: Name of the scores of the search.
    """
    known = f" ({finding.known})" if finding.known else ""
    facts = [f"learning rate {shortest(finding.lr)}"]
    reported = final.objective.name if final else "score"
    for name, score in (
        (f"search {searched}", finding.search_score),
        (f"held-out {reported}", finding.held_out_score),
    ):
        if (number := finite(score)) is not None:
            text = final.objective.brief(number) if final else f"{number:.4g}"
            facts.append(f"{name} {text}")
    for name, values in (finding.held_out.metrics if finding.held_out else {}).items():
        mean = mean_and_spread(values)[0]
        facts.append(f"{name} {final.metric(name).text(mean) if final else f'{mean:.4g}'}")
    drawn = tag("div", formula(finding.simplified), class_="formula") if finding.is_rule else None
    words = tag("p", code(finding.simplified), known)
    return [drawn, words, tag("p", " · ".join(facts), class_="soft")]


def _compared(comparison: Comparison, claim: Claim | None, winner: str) -> list[Evaluation]:
    """Return the winner, its opponent, then the others, best first."""
    first = (winner, opponent_of(comparison, claim))
    return sorted(
        comparison.rows, key=lambda e: first.index(e.recipe) if e.recipe in first else len(first)
    )


def _table(
    comparison: Comparison, claim: Claim | None = None, winner: str = "", most: int | None = None
) -> Markup:
    """Return one row per recipe; the winner and its opponent are always among them."""
    against = changes(comparison, claim)
    rows = list(comparison.rows)
    if most is not None and len(rows) > most:
        kept = {e.recipe for e in _compared(comparison, claim, winner)[:most]}
        rows = [e for e in rows if e.recipe in kept]
    names = {name: None for e in rows for name in e.metrics}
    names = {n: None for n in names if not comparison.metric(n).secondary} or names
    heads = ["", comparison.objective.name, *(["change"] if against else []), *names, "lr"]
    body = [_row(e, comparison, against, list(names), e.recipe == winner) for e in rows]
    left_out = len(comparison.rows) - len(rows)
    note = tag("p", f"{left_out} more rows in the report", class_="soft") if left_out else None
    head = [tag("th", name, class_="number" if name else None, scope="col") for name in heads]
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", body), class_="rows")
    return tag("div", table, note, class_="scroll")


def _row(
    e: Evaluation,
    comparison: Comparison,
    against: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
    is_winner: bool,
) -> Markup:
    objective = comparison.objective
    score = e.status.value if e.score is None else objective.text(e.score, e.spread)
    cells = [score.replace("_", " ")]
    if against:
        paired = against.get(e.recipe)
        cells.append(change_text(paired, objective.unit) if paired else "")
    for name in names:
        values = e.metrics.get(name, ())
        cells.append(comparison.metric(name).text(*mean_and_spread(values)) if values else "")
    cells.append("" if e.lr is None else shortest(e.lr))
    numbers = [tag("td", cell, class_="number") for cell in cells]
    name = e.recipe if is_baseline(e.recipe) else code(shown(e.recipe))
    return tag("tr", tag("th", name, scope="row"), numbers, class_="winner" if is_winner else None)


def _curves(evaluations: Sequence[Evaluation]) -> Markup | None:
    """Return the learning curves of the first evaluations that have one."""
    series = []
    for e in evaluations:
        points = [(float(a), float(b)) for a, b in e.curve if finite(a) is not None]
        points = [(a, b) for a, b in points if finite(b) is not None]
        if len(points) > 1:
            series.append(Series(named_or(BEST_RULE, shown(e.recipe)), points))
    if not series:
        return None
    drawing = line_chart(series[:CURVES], "step", "signal, mean over the seeds", ratio_for_log=8)
    return tag("div", drawing, class_="scroll")
