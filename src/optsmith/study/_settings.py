"""The settings of a search: all that decides its result."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from optsmith._errors import StudyError
from optsmith.space import Space
from optsmith.task import Protocol

Dedupe = Literal["none", "equal", "scale"]
DEDUPE = ("none", "equal", "scale")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What was asked for. Two searches with equal settings give equal results.

    Attributes:
        task: Name of the task.
        preset: Name of the preset that the rest started from.
        protocol: How candidates are scored.
        algorithm: Name of the searcher.
        space: Name of the space.
        space_hash: Hash of its operators, constraints and depth.
        budget: Evaluations that are accepted, or made.
        levels: Levels of the tree search.
        proposals: How many of the best are evaluated in the end.
        seed: Seed of the search.
        descent: Whether the screen applies the descent test.
        trajectory: Whether it applies the trajectory test.
        dedupe: Which rules count as known.
        count_all: Whether every evaluation counts in the budget, not only those accepted.
        time_limit: Seconds an evaluation may take; None: no limit.
        device: Where to train.
    """

    task: str
    preset: str
    protocol: Protocol
    algorithm: str
    space: str
    space_hash: str
    budget: int
    levels: int
    proposals: int
    seed: int
    descent: bool
    trajectory: bool
    dedupe: Dedupe
    count_all: bool
    time_limit: float | None
    device: str

    def __post_init__(self) -> None:
        for name in ("budget", "levels", "proposals"):
            if getattr(self, name) < 1:
                raise StudyError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.dedupe not in DEDUPE:
            raise StudyError(f'dedupe is one of {", ".join(DEDUPE)}, not "{self.dedupe}"')
        if self.time_limit is not None and not self.time_limit > 0:
            raise StudyError(f"a time limit must be positive, not {self.time_limit:g}")

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        data = asdict(self)
        data["protocol"]["lrs"] = list(self.protocol.lrs)
        return data

    def check_continues(self, stored: Mapping[str, Any], name: str) -> None:
        """Check that a study made with `stored` settings can go on with these.

        Raises:
            StudyError: Something differs that changes the result; only the budget may grow.
        """
        old, new = _flat(stored), _flat(self.to_json())
        for key in new:
            if old.get(key) == new[key] or (key == "budget" and new[key] > old.get(key, 0)):
                continue
            raise StudyError(
                f"the study {name} was made with {key} {_show(old.get(key))}, not"
                f" {_show(new[key])}: give what it was made with, or another --study"
            )


def _flat(data: Mapping[str, Any]) -> dict[str, Any]:
    protocol = data.get("protocol", {})
    return {**{k: v for k, v in data.items() if k != "protocol"}, **protocol}


def _show(value: Any) -> str:
    return "none" if value is None else str(value)


def space_hash(space: Space) -> str:
    """Return a hash of what a space consists of."""
    parts = [repr(space.operators), str(space.max_depth)]
    parts += sorted(f"{c.parent}/{c.slot}/{sorted(c.children)}" for c in space.constraints)
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()
