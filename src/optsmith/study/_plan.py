"""Turns a time budget into explicit settings of a study."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from optsmith._duration import show_duration
from optsmith._errors import TaskError
from optsmith.study._cost import PHASES
from optsmith.study._pace import Speed
from optsmith.study._sizes import MOST, SIZES, lengths_of, with_length, with_size
from optsmith.study._timing import Timing
from optsmith.task import Preset

AIM = 0.85
"""Share of the time that a plan uses; the rest is for runs that take longer than measured."""

START = 1.0
"""Seconds until the first job is under way."""

COMPARISON = 0.5
"""Share of the time for opponents and comparison, unless the least of them needs more."""

PER_LEVEL = 10
"""Minimum number of candidates per level of the tree search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePlan:
    """A study that fits into a time.

    Attributes:
        settings: Its explicit settings.
        opponents: Number of opponents that race, in the order in which they are given.
        max_time: The time.
        expected: Expected seconds of each phase.
        search_until: Seconds of the study at which the search must end, for the comparison to fit.
        text: The plan in one line.
    """

    settings: Preset
    opponents: int
    max_time: float
    expected: Mapping[str, float] = field(default_factory=dict)
    search_until: float
    text: str

    @property
    def seconds(self) -> float:
        """Expected seconds of the whole study."""
        return START + sum(self.expected.values())


def make_plan(
    preset: Preset,
    max_time: float,
    speed: Speed,
    opponents: int,
    workers: int,
    algorithm: str,
    *,
    spent: float = 0.0,
    plain_share: float = 0.5,
    proxy: Speed | None = None,
    fixed: Collection[str] = (),
) -> TimePlan:
    """Return the most thorough study that fits into a time.

    About half of the time is for the search, the rest for opponents and comparison.

    Args:
        preset: Settings to start from.
        max_time: Seconds for the whole study.
        speed: Time of runs on one worker.
        opponents: Number of opponents that can race.
        workers: Number of worker processes; 0 counts as one.
        algorithm: Name of the searcher.
        spent: Seconds of the study that have passed already.
        plain_share: Share of the opponents that cannot be trained in stacks.
        proxy: Time of runs of the proxy, on which search and race are done; the length of its runs
            is not changed.
        fixed: Settings that the user has chosen: names of fields of `Preset` and `Protocol`.

    Raises:
        TaskError: The time is too short for any claim.
    """
    kept = {*fixed, "steps", "proxy_steps", "race"} if proxy else set(fixed)
    timing = Timing(speed, proxy or speed, max(1, workers), plain_share)
    time = AIM * (max_time - spent) - START
    thrifty: TimePlan | None = None
    for size in SIZES:
        racing = min(opponents, size.opponents)
        compared = with_size(preset, size, racing, kept)
        settings = _with_search(compared, racing, time, timing, algorithm, kept)
        if settings is None:
            continue
        plan = _plan(settings, racing, max_time, timing, proxy is not None)
        search = plan.expected["search"] + plan.expected["equal tuning"]
        if plan.seconds - START - search <= COMPARISON * time:
            return plan
        thrifty = thrifty or plan
    if thrifty is not None:
        return thrifty
    least, needed = _least(preset, timing, opponents, kept)
    cheaper = "" if proxy else ", or a proxy (--proxy steps=0.1,data=0.2)"
    raise TaskError(
        f"{show_duration(max_time)} are too short for a claim: a run takes"
        f" {show_duration(speed.plain.seconds(preset.protocol.final_steps))}, and {least.budget}"
        f" candidates, then one rule and one opponent with tuned learning rates on 5 seeds, need"
        f" about {show_duration(_round_up(spent + needed / AIM))}; give that much"
        f" time, or shorter runs (--final-steps){cheaper}"
    )


def _with_search(
    preset: Preset,
    opponents: int,
    seconds: float,
    timing: Timing,
    algorithm: str,
    kept: Collection[str],
) -> Preset | None:
    """Return the settings with the longest runs that leave enough candidates; None: none do."""
    for share, seeds, enough in lengths_of(preset):
        settings = with_length(preset, share, seeds, kept)
        costs = timing.phases(replace(settings, budget=MOST), opponents)
        by_budget = costs["search"] + costs["equal tuning"]
        left = seconds - sum(costs.values()) + by_budget
        budget = min(MOST, int(left * MOST / by_budget))
        if "budget" in kept:
            budget, enough = (preset.budget if budget >= preset.budget else 0), preset.budget
        if budget >= enough:
            return replace(
                settings, budget=budget, options=_options(preset, algorithm, budget, kept)
            )
    return None


def _least(
    preset: Preset, timing: Timing, opponents: int, kept: Collection[str]
) -> tuple[Preset, float]:
    """Return the cheapest settings that allow a claim, and the seconds that they need."""
    share, seeds, enough = lengths_of(preset)[-1]
    cheapest: tuple[Preset, float] | None = None
    for size in SIZES:
        racing = min(opponents, size.opponents)
        settings = with_length(with_size(preset, size, racing, kept), share, seeds, kept)
        settings = settings if "budget" in kept else replace(settings, budget=enough)
        seconds = START + sum(timing.phases(settings, racing).values())
        if cheapest is None or seconds <= cheapest[1]:
            cheapest = settings, seconds
    assert cheapest is not None  # noqa: S101 - there are sizes
    return cheapest


def _round_up(seconds: float) -> float:
    """Return a duration that is a little longer and shown exactly."""
    unit = 1 if seconds < 60 else 10 if seconds < 500 else 60
    return float(unit * math.ceil(1.02 * seconds / unit))


def _plan(
    settings: Preset, opponents: int, max_time: float, timing: Timing, on_proxy: bool
) -> TimePlan:
    expected = timing.phases(settings, opponents)
    after = sum(expected[phase] for phase in PHASES[PHASES.index("search") + 1 :])
    plan = TimePlan(
        settings=settings,
        opponents=opponents,
        max_time=max_time,
        expected=expected,
        search_until=max_time - after / AIM,
        text="",
    )
    return replace(plan, text=_text(plan, timing.speed, on_proxy))


def _text(plan: TimePlan, speed: Speed, on_proxy: bool) -> str:
    """Return the plan in one line."""
    settings, contest = plan.settings, plan.settings.contest
    full, steps = settings.protocol.final_steps, settings.protocol.steps
    run = show_duration(speed.plain.seconds(full))
    if speed.stacked.seconds(full) < speed.plain.seconds(full):
        run += f" ({show_duration(speed.stacked.seconds(full))} in stacks)"
    where = "on the proxy" if on_proxy else f"at {steps / full:.0%} length".replace("%", " %")
    finalists = contest.finalists if contest.race else None
    compared = settings.proposals + min(plan.opponents, finalists or plan.opponents)
    seeds = " to ".join(str(n) for n in sorted({contest.looks[0], contest.looks[-1]}))
    return (
        f"a run takes {run}: {settings.budget} candidates {where}, {compared} at full length,"
        f" {plan.opponents} opponent{'s' * (plan.opponents != 1)}, {seeds} seeds; about"
        f" {show_duration(plan.seconds)} of {show_duration(plan.max_time)}"
    )


def _options(
    preset: Preset, algorithm: str, budget: int, kept: Collection[str]
) -> Mapping[str, Any]:
    """Return the searcher's options: the tree search takes fewer levels with few candidates."""
    if algorithm != "mct" or "levels" in kept:
        return preset.options
    levels = max(1, min(int(preset.options.get("levels", 4)), budget // PER_LEVEL))
    return {**preset.options, "levels": levels}
