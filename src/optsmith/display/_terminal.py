"""Progress as a panel that is updated in place, for terminals."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from optsmith.display._base import Display


class TerminalDisplay(Display):
    """A panel at the bottom of the terminal.

    Args:
        console: The terminal.
        again: What resumes an interrupted search: "call" or "command".
    """

    def __init__(self, console: Console, again: str = "call") -> None:
        super().__init__(again)
        self.console = console

    def started(self, *args: Any, **facts: Any) -> None:
        """Open the panel."""
        super().started(*args, **facts)
        self._live = Live(
            get_renderable=self._panel,
            console=self.console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # else what a user prints would miss its file
        )
        self._live.start()

    def say(self, text: str) -> None:
        """Print a line above the panel."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show(self) -> None:
        """Do nothing: the panel redraws itself."""

    def finished(self) -> None:
        """Close the panel."""
        self._live.stop()

    def _panel(self) -> Group:
        head = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(self.total, 1), completed=self.done, width=30)
        head.add_row(
            f"{self.phase} ", bar, f"{self.done} / {self.total}", Text(self.speed(), style="dim")
        )
        rows = Table.grid(padding=(0, 2))
        for name, text in self.rows():
            style = "bold" if name == "best rule" else "dim" if name == "draws" else ""
            rows.add_row(name, Text(text, style=style, overflow="ellipsis", no_wrap=True))
        return Group(head, rows)
