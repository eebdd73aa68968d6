"""Recent rate of evaluations, and durations as text."""

from __future__ import annotations

from collections import deque

RECENT = 20
"""Evaluations that the rate is computed from."""


class Pace:
    """Evaluations per minute, over the most recent evaluations of a phase.

    Args:
        start: Time at which the first evaluation was begun, in seconds.
    """

    def __init__(self, start: float) -> None:
        self._times = deque([start], maxlen=RECENT + 1)

    def add(self, now: float) -> None:
        """Count an evaluation."""
        self._times.append(now)

    @property
    def latest(self) -> float:
        """Time of the latest evaluation, or of the start."""
        return self._times[-1]

    def per_minute(self, now: float) -> float:
        """Return the rate; it falls while no evaluation ends."""
        return 60 * (len(self._times) - 1) / max(now - self._times[0], 1e-9)


def rate_text(per_minute: float) -> str:
    """Return a rate in words."""
    digits = f"{per_minute:.0f}" if per_minute >= 10 else f"{per_minute:.2g}"
    return f"{digits} evaluations per minute"


def duration_text(seconds: float) -> str:
    """Return a duration in its two largest units."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
