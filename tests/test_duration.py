"""Durations as text."""

from __future__ import annotations

import pytest

from optsmith import OptsmithError
from optsmith._duration import parse_duration, show_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800), ("1h30m", 5400), ("90s", 90), ("90", 90), ("1.5h", 5400), ("2d", 172800),
        ("1H 5m", 3900), ("0.5", 0.5), (12, 12), (0.25, 0.25),
    ],
)  # fmt: skip
def test_units_and_plain_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "30x", "m30", "5m1h", "nan", "inf", "1e999", 0])
def test_anything_else_is_refused_with_examples(text):
    with pytest.raises(OptsmithError, match="is not a duration such as 90s, 30m or 1h30m"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0312, "0.031 s"), (3.04, "3 s"), (31, "31 s"), (119, "119 s"), (272, "4 min 30 s"),
        (300, "5 min"), (1620, "27 min"), (3600, "1 h 00 min"), (3899, "1 h 05 min"),
    ],
)  # fmt: skip
def test_durations_are_shown_rounded(seconds, text):
    assert show_duration(seconds) == text
