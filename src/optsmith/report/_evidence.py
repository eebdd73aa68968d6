"""Paired comparisons and speed-ups as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from optsmith.evaluation import printed_in
from optsmith.report._values import MISSING, finite, fixed, plural

Paired = Mapping[str, Any]
"""A paired comparison as plain data; see `optsmith.evaluation.Paired`."""


MANY = 10.0
"""Changes of more than this factor are not printed exactly."""


def printed(paired: Paired, unit: str = "") -> tuple[float, str]:
    """Return the factor from a change to what is printed, and its unit: percent, or points.

    Args:
        paired: The comparison.
        unit: Unit of what is compared.
    """
    return printed_in(unit, finite(paired.get("reference")))


def _decimals(paired: Paired, factor: float) -> int:
    """Return the decimals of a printed change that its interval supports.

    The change has at most three digits, or two without an interval.
    """
    low, high, change = (finite(paired.get(key)) for key in ("low", "high", "change"))
    size = factor * abs(change or 0.0)
    width = 0.0 if low is None or high is None else factor / 2 * (high - low)
    scale = max(width / 5, size / 100) if width else size / 10
    return 1 if not scale else min(3, max(0, -math.floor(math.log10(scale))))


def _signed(value: Any, factor: float, decimals: int) -> str:
    """Return a printed change, with a sign unless it is zero."""
    number = finite(value)
    if number is None:
        return MISSING
    text = fixed(factor * number, decimals)
    positive = number > 0 and any(digit in text for digit in "123456789")
    return f"+{text}" if positive else text


def change_text(paired: Paired | None, unit: str = "") -> str:
    """Return the change: `-5.3 %`, or `+0.4 points` for fractions such as accuracies.

    Args:
        paired: The comparison; None if there is none.
        unit: Unit of what is compared.
    """
    if not paired or finite(paired.get("change")) is None:
        return MISSING
    factor, suffix = printed(paired, unit)
    if factor * paired["change"] > 100 * MANY:
        return f"> {100 * MANY:,.0f} %"
    return _signed(paired["change"], factor, _decimals(paired, factor)) + suffix


def interval_text(paired: Paired | None, unit: str = "") -> str:
    """Return the confidence interval of the change: `-7.9 to -2.4 %`; empty if it has none."""
    low, high = (finite((paired or {}).get(key)) for key in ("low", "high"))
    if not paired or low is None or high is None:
        return ""
    factor, suffix = printed(paired, unit)
    if factor * (finite(paired.get("change")) or 0.0) > 100 * MANY:
        return ""
    decimals = _decimals(paired, factor)
    return f"{_signed(low, factor, decimals)} to {_signed(high, factor, decimals)}{suffix}"


def evidence_text(paired: Paired, unit: str = "") -> str:
    """Return interval, seeds and p-value in words."""
    words = [plural(paired.get("seeds"), "seed", "seeds")]
    if interval := interval_text(paired, unit):
        words.insert(0, f"95 % interval {interval}")
    for key, who in (("diverged", "it"), ("other_diverged", "the opponent")):
        if paired.get(key):
            words.append(f"{who} diverged on {paired[key]}")
    if (p := finite(paired.get("p"))) is not None:
        words.append("p < 0.0001" if p < 1e-4 else f"p = {p:.2g}")
    return ", ".join(words)


def standing(claim: Mapping[str, Any]) -> str:
    """Return how the best rule compares with the best opponent.

    `better`, `worse`, `open` (not decided), or `mixed`: a held-out metric contradicts the
    objective.
    """
    if claim.get("contradicted"):
        return "mixed"
    better = claim["paired"].get("better")
    return "open" if better is None else "better" if better else "worse"


def share_text(speed_up: Mapping[str, Any]) -> str:
    """Return the share of the opponent's steps that is needed: `71 %`, `less than 30 %`."""
    share = finite(speed_up.get("share"))
    if share is None:
        return MISSING
    text = f"{100 * share:.0f} %"
    words = {"below": f"less than {text}", "above": f"more than {text}"}
    return words.get(speed_up.get("bound") or "", text)


def share_interval(speed_up: Mapping[str, Any]) -> str:
    """Return the interval of that share: `64 to 79 %`; empty if it has none."""
    low, high = finite(speed_up.get("low")), finite(speed_up.get("high"))
    if speed_up.get("bound") or low is None or high is None:
        return ""
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def time_share(claim: Mapping[str, Any]) -> str:
    """Return the share of the opponent's time that is needed; empty if it is not known."""
    speed_up, ratio = claim.get("speed_up") or {}, finite(claim.get("step_ratio"))
    share = finite(speed_up.get("share"))
    if share is None or ratio is None or speed_up.get("bound"):
        return ""
    return f"{100 * share * ratio:.0f} %"


def first_sentence(verdict: str) -> tuple[str, str]:
    """Return the first sentence of a verdict, and the others."""
    first, _, rest = verdict.partition(". ")
    return (f"{first}.", rest) if rest else (verdict, "")


def seeds_text(seeds: Sequence[float]) -> str:
    """Return how many seeds there are, and which: `4 seeds (7, 10 to 12)`."""
    if not seeds:
        return MISSING
    runs: list[list[int]] = []
    for seed in sorted(map(int, seeds)):
        if runs and seed == runs[-1][1] + 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    which = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)
    return f"{plural(len(seeds), 'seed', 'seeds')} ({which})"
