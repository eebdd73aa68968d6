"""The time of a study, and decisions that depend on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from optsmith.storage import Store
from optsmith.study._attributes import SUMMARY

DECISION = "decision:"
"""Prefix of the attributes that hold decisions."""


class Clock:
    """Counts the time of a study over all its sessions.

    A decision that depends on the time is made once and stored, so that a resumed study repeats it.

    Args:
        store: The store of the study.
        start: Time at which this session started, by `time.monotonic`.

    Attributes:
        before: Seconds of earlier sessions.
    """

    def __init__(self, store: Store, start: float) -> None:
        self._store, self._start = store, start
        self.before: float = store.attrs.get(SUMMARY, {}).get("seconds") or 0.0

    def seconds(self) -> float:
        """Return the seconds that the study has taken so far."""
        return self.before + time.monotonic() - self._start

    def decided(self, name: str) -> Any:
        """Return a stored decision; None if it was not made."""
        return self._store.attrs.get(DECISION + name)

    def decide(self, name: str, question: Callable[[], Any]) -> Any:
        """Return a stored decision, or make and store it now."""
        found = self.decided(name)
        if found is None:
            found = question()
            self.store(name, found)
        return found

    def store(self, name: str, decision: Any) -> None:
        """Store a decision, replacing an earlier one."""
        self._store.flush()
        self._store.set_attr(DECISION + name, decision)
