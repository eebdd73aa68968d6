"""Progress as plain lines at intervals, for files and logs."""

from __future__ import annotations

import time

from rich.console import Console

from optsmith.display._base import SEARCH, Display

LINE_SECONDS = 20.0
"""Time between lines."""


class LineDisplay(Display):
    """Prints a line if the last one is older than `LINE_SECONDS`.

    Args:
        console: Where to print.
        again: What resumes an interrupted search: "call" or "command".
    """

    def __init__(self, console: Console, again: str = "call") -> None:
        super().__init__(again)
        self.console = console
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show(self) -> None:
        """Print a line, unless the last one is recent."""
        if time.monotonic() - self._last < LINE_SECONDS:
            return
        self._last = time.monotonic()
        parts = [f"{self.phase} {self.done}/{self.total}, {self.speed()}", self.standing.text()]
        if self.phase == SEARCH:
            parts.append(self.draws())
        self.say("; ".join(filter(None, parts)))
