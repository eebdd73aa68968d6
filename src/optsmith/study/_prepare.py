"""Turns the arguments of a search into settings, before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from optsmith._duration import parse_duration
from optsmith.optim import Baseline, by_likelihood, find_baselines
from optsmith.rules import definitions
from optsmith.searchers import Searcher, find_searcher, option_fields, read_options, searchers
from optsmith.space import Space, spaces
from optsmith.study._cost import affordable
from optsmith.study._proxy import Proxy, parse_proxy, proxy_task, with_proxy
from optsmith.study._settings import Settings, space_hash
from optsmith.study._start_from import StartSource, start_texts
from optsmith.task import Preset, Protocol, Task, check_device, find_task


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The arguments of `search` that determine its result, as they were given."""

    space: Space | str | None
    algorithm: str | type[Searcher] | None
    budget: int | None
    seed: int
    max_time: float | str | None
    patience: int | None
    max_cost: float | None
    proxy: str | Task | None
    start_from: StartSource | Iterable[StartSource] | None
    baselines: str | Iterable[str | Baseline] | None
    options: Mapping[str, Any]
    preset: str
    protocol: Protocol | None
    proposals: int | None
    descent: bool | None
    trajectory: bool | None
    dedupe: str | None
    max_state_bytes: float | None
    max_step_cost: float | None
    warm_start: bool | None
    refine: bool | None
    equally_tuned: bool | None
    time_limit: float | None
    device: str
    stack: int | None
    data_dir: Path | None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A search that is ready to begin.

    Attributes:
        task: The task.
        proxy: The task that the search trains instead; None: the task itself.
        space: The space.
        kind: The class of the searcher.
        label: Name of the searcher.
        settings: The settings, before a plan is made.
        fixed: Names of settings that a plan must not change, because they were given.
        notes: What the user should know, one sentence each.
    """

    task: Task
    proxy: Task | None
    space: Space
    kind: type[Searcher]
    label: str
    settings: Settings
    fixed: frozenset[str]
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Default name of the study."""
        settings = self.settings
        return f"{self.task.name}-{settings.preset}-{self.label}-{settings.seed}"

    def searcher(self, settings: Settings) -> Searcher:
        """Return a new searcher for settings that may differ from those asked for."""
        return self.kind(
            self.space,
            settings.search.budget,
            settings.seed,
            self.task.objective.direction,
            read_options(self.label, self.kind.Options, settings.search.options),
        )


def asked_again(asked: Asked, stored: Settings) -> Asked:
    """Return the arguments that find the space and the searcher of an existing study.

    Its space and searcher are found by name, unless they were given as objects.
    """
    space = asked.space if isinstance(asked.space, Space) else stored.search.space
    given = asked.algorithm
    algorithm = stored.algorithm if given is None or isinstance(given, str) else given
    return replace(
        asked, space=space, algorithm=algorithm, proxy=asked.proxy or stored.proxy or None
    )


def prepare_search(task: Task | str, asked: Asked) -> Prepared:
    """Return the search that was asked for.

    Raises:
        OptsmithError: A setting is invalid.
    """
    if isinstance(task, str):
        task = find_task(task, asked.data_dir)
    usual = task.preset(asked.preset)
    chosen = asked.algorithm or default_searcher(usual, asked.space)
    kind = find_searcher(chosen) if isinstance(chosen, str) else chosen
    base = kind.adapted(usual)
    space = _space(base.space if asked.space is None else asked.space)
    label = _label(kind)
    check_device(asked.device)
    opponents, notes = find_baselines(
        "task" if asked.baselines is None else asked.baselines, task.baselines
    )
    if asked.max_time is not None and asked.baselines in (None, "task"):
        opponents = tuple(by_likelihood(opponents))  # a plan may race only the first ones
    search = _search(base, asked, space, kind, label)
    proxy, small = _proxy(task, asked)
    if proxy is not None:
        search = with_proxy(search, proxy, small, asked.preset)
    settings = Settings(
        task=task.name,
        preset=asked.preset,
        search=search,
        algorithm=chosen if isinstance(chosen, str) else label,
        seed=asked.seed,
        time_limit=asked.time_limit,
        device=asked.device,
        stack=asked.stack,
        space_hash=space_hash(space),
        definitions=definitions(space),
        opponents=tuple(map(str, opponents)),
        patience=asked.patience,
        max_cost=asked.max_cost,
        proxy="" if proxy is None else str(proxy) or (small.name if small else ""),
        start_given=start_texts(asked.start_from, task.name),
        max_time=None if asked.max_time is None else parse_duration(asked.max_time),
    )
    return Prepared(
        task=task,
        proxy=small,
        space=space,
        kind=kind,
        label=label,
        settings=settings,
        fixed=frozenset(_fixed(base, asked)),
        notes=(*task.notes, *notes),
    )


def default_searcher(preset: Preset, space: Space | str | None) -> str:
    """Return the name of the searcher of a preset, or of one that searches a given space."""
    name = space.name if isinstance(space, Space) else space
    return preset.searcher if name in (None, "modern") else "mct"


def _search(base: Preset, asked: Asked, space: Space, kind: type[Searcher], label: str) -> Preset:
    """Return the preset with the changes that were asked for."""
    names = (
        "protocol", "budget", "proposals", "descent", "trajectory", "dedupe", "max_state_bytes",
        "max_step_cost", "warm_start", "refine", "equally_tuned",
    )  # fmt: skip
    given = {name: getattr(asked, name) for name in names}
    changes = {name: value for name, value in given.items() if value is not None}
    contest = base.contest
    if asked.protocol is not None and asked.protocol.final_seeds != base.protocol.final_seeds:
        contest = replace(contest, looks=())  # this number of seeds, and no more
    found = replace(
        base,
        space=space.name,
        searcher=label,
        options=_options(kind, label, base, asked.options),
        contest=contest,
        **changes,
    )
    if asked.max_cost is None or asked.budget is not None:
        return found
    return replace(found, budget=affordable(found, asked.max_cost))


def _fixed(base: Preset, asked: Asked) -> Collection[str]:
    """Return the names of the settings that were given."""
    names = [name for name in ("budget", "proposals") if getattr(asked, name) is not None]
    names += asked.options
    if asked.protocol is not None:
        names += [
            f.name
            for f in fields(Protocol)
            if getattr(asked.protocol, f.name) != getattr(base.protocol, f.name)
        ]
    return names


def _proxy(task: Task, asked: Asked) -> tuple[Proxy | None, Task | None]:
    """Return the proxy, and the task that the search trains."""
    if asked.proxy is None:
        return None, None
    if isinstance(asked.proxy, Task):
        return Proxy(task=asked.proxy.name), asked.proxy
    proxy = parse_proxy(asked.proxy)
    return proxy, proxy_task(task, proxy, asked.data_dir)


def _space(space: Space | str) -> Space:
    if isinstance(space, Space):
        return space
    if space not in spaces:
        raise spaces.unknown(space)
    return spaces[space]


def _label(kind: type[Searcher]) -> str:
    """Return the registered name of a searcher, or the name of its class."""
    return next((name for name, known in searchers.items() if known is kind), kind.__name__)


def _options(
    kind: type[Searcher], label: str, preset: Preset, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all options of a searcher: given, from the preset, or by default."""
    declared = {field.name for field in option_fields(kind.Options)}
    usual = {name: value for name, value in preset.options.items() if name in declared}
    return asdict(read_options(label, kind.Options, {**usual, **given}))
