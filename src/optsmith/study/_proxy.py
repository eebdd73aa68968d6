"""Proxies: a cheaper task on which the search is done, when a full run takes hours."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from optsmith._errors import TaskError
from optsmith.study._sizes import SHORTEST
from optsmith.task import Contest, Preset, Task, find_task


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """How a proxy differs from its task.

    Attributes:
        steps: Share of the steps of a full run.
        data: Share of the training data.
        task: Another, smaller task, as `file.py:name`; empty: the task itself.

    Raises:
        TaskError: A setting is invalid.
    """

    steps: float = 1.0
    data: float = 1.0
    task: str = ""

    def __post_init__(self) -> None:
        for name in ("steps", "data"):
            if not 0 < getattr(self, name) <= 1:
                raise TaskError(
                    f"{name} of a proxy must be above 0 and at most 1, not {getattr(self, name):g}"
                )

    def __str__(self) -> str:
        default = asdict(Proxy())
        parts = [f"{k}={v:g}" for k, v in asdict(self).items() if k != "task" and v != default[k]]
        return ",".join([*parts, self.task] if self.task else parts)


def parse_proxy(text: str) -> Proxy:
    """Return a proxy from its text: `steps=0.1,data=0.2`, or `file.py:name` for a smaller task.

    Both can be combined: `steps=0.5,file.py:name`.

    Raises:
        TaskError: The text is not a proxy, or does not make anything cheaper.
    """
    shares: dict[str, float] = {}
    task = ""
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, is_share, value = part.partition("=")
        if not is_share and ":" in part and not task:
            task = part
        elif is_share and name in ("steps", "data") and name not in shares:
            shares[name] = _number(name, value)
        else:
            raise TaskError(f'"{part}" is not a proxy: write steps=0.1,data=0.2, or file.py:name')
    proxy = Proxy(task=task, **shares)
    if proxy == Proxy():
        raise TaskError("a proxy must be cheaper: write steps=0.1,data=0.2, or file.py:name")
    return proxy


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise TaskError(f'{name} of a proxy must be a number, not "{value}"') from None


def proxy_task(task: Task, proxy: Proxy, data_dir: Path | None = None) -> Task | None:
    """Return the task on which the search and the race are done; None if it is the task itself.

    Raises:
        TaskError: The smaller task does not exist, its scores cannot be compared with those of the
            task, or its data cannot be divided.
    """
    found = find_task(proxy.task, data_dir) if proxy.task else task
    if found.objective.direction != task.objective.direction:
        raise TaskError(
            f"the proxy {found.name} must {task.objective.direction} its objective as the task"
            f" {task.name} does"
        )
    if proxy.data < 1:
        found = found.subset(proxy.data)
    return None if found is task else found


def with_proxy(settings: Preset, proxy: Proxy, found: Task | None, preset: str) -> Preset:
    """Return the settings of a study whose search and race are done on a proxy.

    Learning rates are tuned again at full size for the comparison, around those of the proxy.

    Args:
        settings: The settings without a proxy.
        proxy: The proxy.
        found: The task that `proxy_task` returned.
        preset: Name of the preset, which gives the length of a full run of a smaller task.
    """
    protocol, full = settings.protocol, settings.protocol.final_steps
    length, threshold = full, protocol.threshold
    if proxy.task and found is not None:
        other = found.preset(preset).protocol
        length, threshold = other.final_steps, other.threshold
    if proxy.steps < 1 or proxy.task:
        steps = max(min(SHORTEST, length), round(proxy.steps * length))
        protocol = protocol.replace(
            proxy_steps=steps, steps=steps, threshold=threshold, tune_steps=full
        )
        settings = replace(
            settings, protocol=protocol, contest=_race(settings.contest, steps, full)
        )
    return settings


def _race(contest: Contest, steps: int, full: int) -> Contest:
    """Return the contest with a race at a third of the proxy's length, and at its length."""
    if not contest.race:
        return contest
    lengths = {max(SHORTEST, steps // 3), steps}
    return replace(contest, race=tuple(sorted(n / full for n in lengths if n < full)))
