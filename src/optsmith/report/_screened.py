"""Section of the screening: how many candidates were drawn, refused, trained and accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optsmith.report._html import Content, Markup, section, tag
from optsmith.report._values import count, finite, percent, plural

TRAINED = {
    "early_stopped": "stopped early",
    "diverged": "diverged",
    "failed": "failed",
    "timed_out": "timed out",
    "rejected": "not better than the threshold",
    "lost": "lost by the machine",
}


@dataclass(frozen=True, slots=True)
class Loss:
    """Candidates dropped at one stage for one reason."""

    words: str
    many: int
    stage: str


def _whole(value: Any) -> int:
    return int(finite(value) or 0)


def losses(counts: Mapping[str, Any]) -> list[Loss]:
    """Return the losses per stage; those of the screen are sorted by their number."""
    refused = counts.get("refused") or {}
    screened = [Loss(reason, _whole(many), "screen") for reason, many in refused.items()]
    screened.sort(key=lambda loss: -loss.many)
    known = [Loss("duplicate of a known rule", _whole(counts.get("duplicate")), "known")]
    trained = [Loss(words, _whole(counts.get(key)), "trained") for key, words in TRAINED.items()]
    return [loss for loss in [*screened, *known, *trained] if loss.many]


def trained(counts: Mapping[str, Any]) -> int:
    """Return the number of candidates that were trained."""
    return _whole(counts.get("accepted")) + sum(_whole(counts.get(key)) for key in TRAINED)


def early_stop_rate(counts: Mapping[str, Any]) -> str:
    """Return the share of trained candidates that were stopped early."""
    whole = trained(counts)
    return percent(_whole(counts.get("early_stopped")), whole) if whole else percent(0, 1)


def _bar(words: str, many: int, drawn: int, left: int, class_: str) -> Markup:
    """Return one row: a label, a bar that starts at `left`, and the count."""
    share = f"left:{100 * left / drawn:.2f}%;width:{100 * many / drawn:.2f}%"
    return tag(
        "li",
        tag("span", words, class_="what"),
        tag("span", tag("i", style=share, class_=class_) if many else None, class_="track"),
        tag("span", count(many), class_="many"),
        tag("span", percent(many, drawn), class_="share"),
    )


def screened_section(counts: Mapping[str, Any]) -> Markup | None:
    """Return the section of the screening, or None before the first draw."""
    lost, accepted = losses(counts), _whole(counts.get("accepted"))
    total = accepted + sum(loss.many for loss in lost)
    drawn = max(total, _whole(counts.get("drawn")))
    if not drawn:
        return None
    rows: list[Content] = [_bar("drawn", drawn, drawn, 0, "drawn")]
    left = drawn
    for loss in lost:
        left -= loss.many
        rows.append(_bar(loss.words, loss.many, drawn, left, loss.stage))
    if left > accepted:
        rows.append(_bar("not finished", left - accepted, drawn, accepted, "drawn"))
    rows.append(_bar("accepted", accepted, drawn, 0, "accepted"))
    keys = [("screen", "refused without training"), ("known", "duplicate, score reused"),
            ("trained", "trained and dropped"), ("accepted", "accepted")]  # fmt: skip
    stages = {loss.stage for loss in lost} | {"accepted"}
    legend = [
        tag("li", tag("i", class_=f"key block {stage}"), words)
        for stage, words in keys
        if stage in stages
    ]
    free = sum(loss.many for loss in lost if loss.stage != "trained")
    lead = (
        f"Of {plural(drawn, 'candidate', 'candidates')}, {count(free)} ({percent(free, drawn)}) "
        f"needed no training. {plural(trained(counts), 'was', 'were')} trained, of which "
        f"{early_stop_rate(counts)} were stopped early."
    )
    return section(
        "screened",
        "Screening",
        tag("ol", rows, class_="funnel"),
        tag("ul", legend, class_="legend"),
        lead=lead,
    )
