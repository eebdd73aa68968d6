"""Durations as text: `90s`, `30m`, `1h30m`, or plain seconds."""

from __future__ import annotations

import math
import re

from optsmith._errors import OptsmithError

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_PART = r"\d+(?:\.\d+)?"
_TEXT = re.compile("".join(rf"(?:(?P<{unit}>{_PART}){unit})?" for unit in _UNITS))


def parse_duration(text: str | float) -> float:
    """Return the seconds of a duration.

    Args:
        text: Seconds, or numbers with units in decreasing order, such as `1h30m` or `1.5h`.

    Raises:
        OptsmithError: The text is not a positive duration.
    """
    try:
        seconds = float(text)
    except ValueError:
        found = _TEXT.fullmatch(str(text).replace(" ", "").lower())
        parts = found.groupdict() if found else {}
        seconds = sum(float(n) * _UNITS[unit] for unit, n in parts.items() if n)
    if not 0 < seconds < math.inf:
        raise OptsmithError(f'"{text}" is not a duration such as 90s, 30m or 1h30m')
    return seconds


def show_duration(seconds: float) -> str:
    """Return a duration for people, rounded: `31 s`, `4 min 30 s`, `27 min`, `1 h 05 min`."""
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    if seconds < 595:
        minutes, rest = divmod(10 * round(seconds / 10), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02d} min" if hours else f"{minutes} min"
