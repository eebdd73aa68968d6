"""Choice of the progress display, and several observers of one search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console

from optsmith._errors import StudyError
from optsmith.display._base import Display
from optsmith.display._lines import LineDisplay
from optsmith.display._notebook import NotebookDisplay
from optsmith.display._terminal import TerminalDisplay
from optsmith.study import Observer

EVENTS = [name for name in vars(Observer) if not name.startswith("_")]


class Observers(Observer):
    """Notifies several observers of each event, in order.

    Args:
        observers: The observers.
    """

    def __init__(self, *observers: Observer) -> None:
        for event in EVENTS:
            setattr(self, event, _all([getattr(observer, event) for observer in observers]))


def _all(methods: list[Callable[..., None]]) -> Callable[..., None]:
    def notify(*args: Any, **facts: Any) -> None:
        for method in methods:
            method(*args, **facts)

    return notify


def make_display(console: Console | None = None, again: str = "call") -> Display:
    """Return the display for where the program runs.

    A notebook gets HTML that is updated in place, a terminal a panel, a file plain lines.

    Args:
        console: Where to print; by default stderr.
        again: What resumes an interrupted search: "call" or "command".
    """
    console = console or Console(stderr=True)
    if console.is_jupyter:
        return NotebookDisplay()
    kind = TerminalDisplay if console.is_terminal else LineDisplay
    return kind(console, again)


def watching(observer: Observer | None, progress: bool) -> Observer:
    """Return the observer of a search: the user's, the progress display, or both.

    Args:
        observer: The user's observer.
        progress: Whether to show progress.

    Raises:
        StudyError: `observer` is not an observer.
    """
    if observer is not None and not isinstance(observer, Observer):
        raise StudyError(
            f"observer must be an instance of a subclass of optsmith.Observer, not {observer!r:.60}"
        )
    # The display is first, so that it is closed even if the user's observer raises an error.
    chosen = [*([make_display()] if progress else []), *([observer] if observer else [])]
    return chosen[0] if len(chosen) == 1 else Observers(*chosen)
