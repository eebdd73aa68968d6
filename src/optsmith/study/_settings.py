"""The settings of a search: everything that determines its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from optsmith._errors import StudyError
from optsmith._stored import damaged, read
from optsmith.space import Space
from optsmith.study._plan import TimePlan
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
        opponents: Texts of the baselines that rules are compared with.
        patience: Accepted candidates without improvement after which the search ends; None: any.
        max_cost: Training steps of the search, in full runs, at which it ends; None: any.
        proxy: Text of the proxy that the search trains; empty: the task itself.
        start_given: What the search was to start from, as it was given.
        start_from: The rules that this stands for, some with learning rates.
        max_time: Seconds for the whole study; None: no limit.
        search_until: Seconds of the study at which the search ends; None: no limit.
        plan: The plan that the time was turned into, in one line; empty without one.
        step_ratio: Time of a step of a full run, relative to one of the search, for forecasts.
        rule_cost: Cost of a step of a rule that the search finds, relative to a known one, for
            forecasts; None: not measured.
        asked: The settings that the plan was made from; empty without a plan.
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
    opponents: tuple[str, ...] = ()
    patience: int | None = None
    max_cost: float | None = None
    proxy: str = ""
    start_given: tuple[str, ...] = ()
    start_from: tuple[str, ...] = ()
    max_time: float | None = None
    search_until: float | None = None
    plan: str = ""
    step_ratio: float = 1.0
    rule_cost: float | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)

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

    def planned(self, plan: TimePlan, step_ratio: float, rule_cost: float) -> Settings:
        """Return the explicit settings of a plan that was made from these.

        Args:
            plan: The plan.
            step_ratio: Time of a step of a full run, relative to one of the search.
            rule_cost: Cost of a step of a rule that the search finds.
        """
        return replace(
            self,
            search=plan.settings,
            opponents=self.opponents[: plan.opponents],
            search_until=plan.search_until,
            plan=plan.text,
            step_ratio=step_ratio,
            rule_cost=rule_cost,
            asked=self.to_json(),
        )

    def check_continues(self, stored: Mapping[str, Any], name: str) -> None:
        """Check that a study with `stored` settings can be resumed with these.

        Raises:
            StudyError: A setting differs; only the budget may. A smaller one ends the search.
        """
        mine = self.to_json()
        check_definitions(mine.pop("definitions"), stored["definitions"], name)
        # A plan depends on the speed of the machine, so what it was made from is compared.
        old, new = flat(stored["asked"] or stored), flat(mine["asked"] or mine)
        apart = (
            "space_hash", "search_until", "plan", "step_ratio", "rule_cost", "start_given"
        )  # fmt: skip
        for key in [key for key in new if key not in apart]:
            if old.get(key) == new[key] or (key == "budget" and not self.asked):
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
    """Return stored settings with those of protocol, contest and searcher on the top level."""
    nested = ("protocol", "options", "definitions", "contest", "asked")
    data = {key: value for key, value in settings.items() if key not in nested}
    options = {f"{k} (option)" if k in data else k: v for k, v in settings["options"].items()}
    return {**data, **settings["protocol"], **settings["contest"], **options}


def _show(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def space_hash(space: Space) -> str:
    """Return a hash of the operators, constraints and depth of a space."""
    parts = [repr(space.operators), str(space.max_depth)]
    parts += sorted(f"{c.parent}/{c.slot}/{sorted(c.children)}" for c in space.constraints)
    parts += [str(sorted(space.weights.items()))] if space.weights else []
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
