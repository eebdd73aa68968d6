"""Progress bars of downloads, shown if stderr is a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

_log = logging.getLogger(__name__)

Advance = Callable[[int], None]


class Progress:
    """Shows the progress of steps; created by `progress()`.

    Args:
        bars: The display; None shows nothing.
    """

    def __init__(self, bars: Bars | None) -> None:
        self._bars = bars

    @contextmanager
    def step(self, text: str, total: int | None = None) -> Iterator[Advance]:
        """Show a step while the block runs; yields a function to advance it by some bytes.

        Args:
            text: Description of the step.
            total: Total number of bytes; None if unknown.
        """
        if self._bars is None:
            yield lambda count: None
            return
        bars, done = self._bars, 0
        task = bars.add_task(text, total=total, amount="")

        def advance(count: int) -> None:
            nonlocal done
            done += count
            of = "" if total is None else f" of {total / 1e6:.1f}"
            bars.update(task, completed=done, amount=f"{done / 1e6:.1f}{of} MB")

        try:
            yield advance
        finally:
            bars.remove_task(task)

    def note(self, text: str) -> None:
        """Print a line to the terminal, or write it to the log."""
        if self._bars is None:
            _log.info(text)
        else:
            self._bars.console.print(text, markup=False, highlight=False)


@contextmanager
def progress() -> Iterator[Progress]:
    """Show progress while the block runs."""
    if not sys.stderr.isatty():
        yield Progress(None)
        return
    from rich import progress as rich_progress
    from rich.console import Console

    bars = rich_progress.Progress(
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.TextColumn("{task.fields[amount]}"),
        console=Console(stderr=True),
        transient=True,
    )
    with bars:
        yield Progress(bars)
