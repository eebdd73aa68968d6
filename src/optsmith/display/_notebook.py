"""Progress as HTML that is updated in place, for notebooks.

It needs IPython only. Colours are inherited, so that it can be read in light and dark notebooks.
"""

from __future__ import annotations

import time
from typing import Any

from markupsafe import Markup

from optsmith.display._base import Display

EVERY = 0.5
"""Seconds between updates; more frequent ones make browsers slow."""

FIRST, LAST = 6, 8
"""Number of lines that are kept above the bar: the first ones, such as the plan, and the last."""

BLOCK = Markup('<div style="font-size:13px;line-height:1.55;max-width:60em">{lines}{panel}</div>')
LINE = Markup('<div style="opacity:.75">{}</div>')
PANEL = Markup(
    '<div style="display:flex;flex-wrap:wrap;gap:0 .8em;align-items:center;margin:.3em 0">'
    '<b>{phase}</b><div style="width:14em;height:.5em;border-radius:.25em;overflow:hidden;'
    'background:rgba(128,128,128,.3)"><div style="width:{share:.1f}%;height:100%;'
    'background:#d9622b"></div></div><span>{done} / {total}</span>'
    '<span style="opacity:.75">{speed}</span></div>'
    '<div style="display:grid;grid-template-columns:max-content minmax(0,1fr);gap:0 1em">{rows}'
    "</div>"
)
ROW = Markup('<span style="opacity:.75">{}</span><span style="overflow-wrap:anywhere">{}</span>')


class NotebookDisplay(Display):
    """A block of HTML in the output of a cell."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self._handle: Any = None
        self._last = 0.0
        self._running = False

    def started(self, *args: Any, **facts: Any) -> None:
        """Show the block."""
        super().started(*args, **facts)
        self._running = True
        self._draw()

    def say(self, text: str) -> None:
        """Add a line to the block."""
        self._lines.append(text)
        self._draw()

    def show(self) -> None:
        """Update the block, unless the last update is recent."""
        if time.monotonic() - self._last >= EVERY:
            self._draw()

    def finished(self) -> None:
        """Remove the bar, so that the lines remain."""
        self._running = False
        self._draw()

    def html(self) -> str:
        """Return the block."""
        kept = self._lines
        if len(kept) > FIRST + LAST:
            kept = [*kept[:FIRST], "…", *kept[-LAST:]]
        lines = Markup().join(map(LINE.format, kept))
        return BLOCK.format(lines=lines, panel=self._panel())

    def _panel(self) -> Markup:
        if not self._running:
            return Markup()
        return PANEL.format(
            phase=self.phase,
            share=100 * min(1.0, self.done / max(self.total, 1)),
            done=self.done,
            total=self.total,
            speed=self.speed(),
            rows=Markup().join(ROW.format(*row) for row in self.rows()),
        )

    def _draw(self) -> None:
        from IPython.display import HTML, display

        self._last = time.monotonic()
        if self._handle is None:
            self._handle = display(HTML(self.html()), display_id=True)
        else:
            self._handle.update(HTML(self.html()))
