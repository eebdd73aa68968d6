"""The content of the report of a study, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optsmith._errors import StudyError
from optsmith._files import write_atomically
from optsmith.evaluation import Evaluation, mean_and_spread, shown
from optsmith.optim import Baseline, is_baseline
from optsmith.report._answer import answer_data, changes, opponent_of, plain
from optsmith.report._card import make_card
from optsmith.report._command import search_call, search_command
from optsmith.report._markdown import markdown
from optsmith.report._page import render
from optsmith.report._tree import tree_levels
from optsmith.study import Study, flat
from optsmith.task import UNTRAINED


def write_report(study: Study, path: Path | None = None) -> Path:
    """Write the report of a study and return its path.

    Args:
        study: The study, finished or not.
        path: The file; by default next to the study's journal, or in the current directory if the
            study is in a database.

    Raises:
        OptsmithError: The file cannot be written.
    """
    if path is None:
        journal = Path(study.location)
        path = (journal.parent if journal.is_file() else Path()) / f"{study.name}.html"
    write_atomically(path, render(report_data(study)))
    return path


def card(study: Study) -> str:
    """Return the claim card of a study as Markdown, to paste into a pull request.

    Raises:
        StudyError: The study has not accepted any rule.
    """
    data = report_data(study)
    if not data["winner"]:
        raise StudyError(f"the study {study.name} has no card: it has not accepted any rule")
    return markdown(make_card(data))


def report_data(study: Study) -> dict[str, Any]:
    """Return the data of a report, for `render`."""
    settings, about, final = study.settings, study.about, study.final
    against = changes(final, study.claim)
    data: dict[str, Any] = {
        "title": settings["task"],
        "finished": study.finished,
        "created": about["created"],
        "task": {
            "name": settings["task"],
            "description": about["description"],
            "notes": about["notes"],
            "applied": about["applied"],
            "usage": about["usage"],
            "objective": study.objective.name,
            "reported": study.objective.reported.name,
            "direction": study.objective.direction,
            "unit": study.objective.unit,
            "metrics": about["metrics"],
            "threshold": threshold_of(study),
        },
        "winner": _winner(study),
        **answer_data(study),
        "final": {
            "steps": settings["protocol"]["final_steps"],
            "seeds": max((len(e.scores) for e in final.rows), default=0),
            "opponent": opponent_of(final, study.claim),
            "rows": [_row(e, against.get(e.recipe)) for e in final.rows],
        },
        "history": [
            {
                "n": n,
                "candidate": record.candidate,
                "phase": record.phase,
                "fidelity": record.fidelity,
                "rule": record.rule,
                "length": record.length,
                **{key: record.data[key] for key in ("score", "status", "lr", "at_edge")},
            }
            for n, record in enumerate(study.records, start=1)
        ],
        "tree": tree_levels(study),
        "counts": study.summary.get("counts", {}),
        "settings": flat(settings),
        "command": search_command(study),
        "call": search_call(study),
        "versions": about["versions"],
        "seconds": study.summary.get("seconds"),
        "peak_bytes": study.peak_bytes,
        "warnings": _warnings(study),
    }
    found: dict[str, Any] = plain(data)
    return found


def threshold_of(study: Study) -> float | None:
    """Return the score that accepted rules are better than; None if every score is accepted."""
    threshold = study.settings["protocol"]["threshold"]
    found: float | None = study.about["untrained"] if threshold == UNTRAINED else threshold
    return found


def _winner(study: Study) -> dict[str, Any] | None:
    if not study.best(1):
        return None
    best = study.best()
    return {
        "rule": best.recipe,
        "simplified": None if best.simplified == best.recipe else best.simplified,
        "known": best.known,
        "length": best.rule.length,
        "lr": best.lr,
        "at_edge": best.tuned.at_edge,
        "search": _score(best.search),
        "held_out": None if best.held_out is None else _score(best.held_out),
    }


def _score(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "score": evaluation.score,
        "spread": evaluation.spread,
        "seeds": len(evaluation.scores),
    }


def _row(evaluation: Evaluation, change: Mapping[str, Any] | None) -> dict[str, Any]:
    baseline = is_baseline(evaluation.recipe)
    return {
        "label": evaluation.recipe,
        "shown": shown(evaluation.recipe),
        "kind": "baseline" if baseline else "rule",
        "schedule": Baseline.parse(evaluation.recipe).schedule if baseline else "",
        "lr": evaluation.lr,
        "at_edge": evaluation.at_edge,
        "score": evaluation.score,
        "spread": evaluation.spread,
        "n": len(evaluation.scores),
        "change": change,
        "rates": len(evaluation.grid),
        "metrics": {name: mean_and_spread(v) for name, v in evaluation.metrics.items()},
        "ms_per_step": evaluation.ms_per_step,
        "state_bytes": evaluation.state_bytes,
        "status": evaluation.status.value,
        "error": evaluation.error,
        "curve": evaluation.curve,
    }


def _warnings(study: Study) -> list[str]:
    found = []
    at_edge = [e.recipe for e in study.final.rows if e.at_edge]
    if at_edge:
        found.append(
            f"The best learning rate of {len(at_edge)} of {len(study.final.rows)} recipes is at"
            " the edge of the grid: a better one may lie outside (--extend-grid searches there)."
        )
    if not study.finished:
        found.append("The search is not finished; the same command resumes it.")
    return found
