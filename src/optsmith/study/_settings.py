"""The settings of a search: everything that determines its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from optsmith._errors import StudyError
from optsmith._stored import damaged, read
from optsmith.space import Space
from optsmith.task import Preset


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a search; two searches with equal settings give equal results.

    Attributes:
        task: Name of the task.
        preset: Name of the preset that `search` started from.
        search: Protocol, budget, space, screening and options of the searcher.
        algorithm: Name of the searcher, or the file and class that it was loaded from.
        seed: Seed of the search.
        time_limit: Seconds per evaluation; None: no limit.
        device: Where to train.
        stack: Copies per stack; None: chosen by the model's size.
        space_hash: Hash of the space's operators, constraints and depth.
        definitions: Hash of each of the user's operators in the space, by name.
    """

    task: str
    preset: str
    search: Preset
    algorithm: str
    seed: int
    time_limit: float | None = None
    device: str = "cpu"
    stack: int | None = None
    space_hash: str
    definitions: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain data; the fields of `search` are on the top level."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "search"}
        data: dict[str, Any] = json.loads(json.dumps({**own, **asdict(self.search)}))
        return data

    @classmethod
    def from_json(cls, data: Any, what: str) -> Settings:
        """Return the settings that `to_json` wrote.

        Raises:
            StudyError: The data is damaged.
        """
        if not isinstance(data, Mapping):
            raise damaged(what, f"{data!r:.40} is not an object")
        inner = {f.name for f in fields(Preset)}
        search = read(Preset, {k: v for k, v in data.items() if k in inner}, what)
        return read(cls, {k: v for k, v in data.items() if k not in inner}, what, search=search)

    def check_continues(self, stored: Mapping[str, Any], name: str) -> None:
        """Check that a study with `stored` settings can be resumed with these.

        Raises:
            StudyError: A setting differs; only the budget may, and it may only grow.
        """
        mine = self.to_json()
        check_definitions(mine.pop("definitions"), stored["definitions"], name)
        old, new = flat(stored), flat(mine)
        for key in [key for key in new if key != "space_hash"]:
            if old.get(key) == new[key] or (key == "budget" and new[key] > old.get(key, 0)):
                continue
            raise StudyError(
                f"the study {name} was made with {key} {_show(old.get(key))}, not"
                f" {_show(new[key])}: use that value, or give another --study"
            )
        if old["space_hash"] != new["space_hash"]:
            raise StudyError(
                f"the study {name} was made with other operators or constraints in the space"
                f" {self.search.space}: give the space as it was, or another --study"
            )


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored settings with the protocol and the searcher's options on the top level."""
    nested = ("protocol", "options", "definitions")
    data = {key: value for key, value in settings.items() if key not in nested}
    options = {f"{k} (option)" if k in data else k: v for k, v in settings["options"].items()}
    return {**data, **settings["protocol"], **options}


def _show(value: Any) -> str:
    return "none" if value is None else str(value)


def space_hash(space: Space) -> str:
    """Return a hash of the operators, constraints and depth of a space."""
    parts = [repr(space.operators), str(space.max_depth)]
    parts += sorted(f"{c.parent}/{c.slot}/{sorted(c.children)}" for c in space.constraints)
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def check_definitions(now: Mapping[str, str], before: Mapping[str, str], study: str) -> None:
    """Check that the user's operators are defined as they were when a study was created.

    Raises:
        StudyError: The definition of an operator has changed.
    """
    for name, digest in before.items():
        if now.get(name, digest) != digest:
            raise StudyError(
                f'the study {study} was made with another definition of the operator "{name}":'
                " define it as it was, or give another --study"
            )
