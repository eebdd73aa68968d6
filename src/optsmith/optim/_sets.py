"""Sets of baselines by name, and the choice of opponents for a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from optsmith._errors import TaskError
from optsmith._registry import did_you_mean
from optsmith.optim._baselines import APGD, Baseline
from optsmith.optim._known import KNOWN, MUON, PGD, find_optimizer
from optsmith.optim._schedules import CLASSIC_SCHEDULES

_CLASSIC = ("sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop")
_MODERN = (*_CLASSIC, "nadam", "radam", "adafactor", "optsmith:lion", MUON)
_ALL = tuple(name for name in KNOWN if name != PGD)
SETS = ("classic", "modern", "all", "task", "none")

# The most likely to be best first: a comparison that has little time tries only the first ones.
_BY_OPTIMIZER = (
    *("adamw", "nesterov", MUON, "optsmith:lion", "pytorch_optimizer:soap", "nadam", "adam"),
    *("schedulefree:adamw", "radam", "momentum", "prodigyopt:prodigy", "rmsprop", "adafactor"),
    *("schedulefree:sgd", "sgd"),
)
_BY_SCHEDULE = {"cosine": 0, "warmup": 0, "warmup-cosine": 1, "linear": 2, "constant": 3}
_STRIDE = 3  # a better schedule counts as much as three places among the optimizers


def with_schedules(
    *optimizers: str, schedules: Iterable[str] = CLASSIC_SCHEDULES
) -> Mapping[str, Baseline]:
    """Return the baselines of these optimizers with each of these schedules, by name."""
    every = [Baseline(optimizer, schedule) for optimizer in optimizers for schedule in schedules]
    return {str(baseline): baseline for baseline in every}


def _set(optimizers: Iterable[str]) -> list[Baseline]:
    """Return optimizers with all schedules that they are compared with."""
    return [Baseline(name, schedule) for name in optimizers for schedule in KNOWN[name].schedules]


def by_likelihood(baselines: Iterable[Baseline]) -> list[Baseline]:
    """Return baselines with those first that are most likely to be best."""

    def place(baseline: Baseline) -> tuple[int, int]:
        schedule = _BY_SCHEDULE.get(baseline.schedule, 0)
        known = baseline.optimizer in _BY_OPTIMIZER
        optimizer = _BY_OPTIMIZER.index(baseline.optimizer) if known else 0
        return optimizer + _STRIDE * schedule, schedule

    return sorted(baselines, key=place)


classic: Mapping[str, Baseline] = with_schedules(*_CLASSIC)
"""The paper's baselines by name: six optimizers, each constant, linear and cosine."""

modern: Mapping[str, Baseline] = {str(b): b for b in by_likelihood(_set(_MODERN))}
"""Baselines that practitioners would pick, by name, the most likely to be best first.

It includes `torch:muon`, which `find_baselines` leaves out if the installed torch has no Muon.
"""


def find_baselines(
    chosen: str | Iterable[str | Baseline], own: Mapping[str, Baseline]
) -> tuple[tuple[Baseline, ...], tuple[str, ...]]:
    """Return the baselines of a comparison, and notes on those that were left out.

    Sets leave out what is not installed. All but `task` have the most likely winners first; names
    keep their order. The text of a baseline with a constant schedule is also the name of its
    optimizer: pass the baseline itself, or `torch:adam+constant`, to choose it alone.

    Args:
        chosen: `classic`, `modern`, `all` (modern and the optimizers of other packages), `task`
            (the task's own), `none`, or names separated by commas; or names and baselines. A name
            without a schedule stands for all schedules of an optimizer; the name of a package, for
            its optimizers.
        own: The task's own baselines.

    Raises:
        TaskError: A name is unknown, or a named optimizer is not installed.
    """
    names = chosen.split(",") if isinstance(chosen, str) else list(chosen)
    found: list[Baseline] = []
    left_out: dict[str, list[str]] = {}  # names of optimizers by reason
    for name in names:
        text = name.strip() if isinstance(name, str) else name
        if isinstance(text, Baseline):
            text.check()
            found.append(text)
        elif text in SETS:
            for baseline in _members(text, own):
                if not baseline.missing:
                    found.append(baseline)
                else:
                    missing = left_out.setdefault(baseline.missing, [])
                    missing += {str(Baseline(baseline.optimizer))} - set(missing)
        elif text:
            found += _named(text)
    notes = [f"left out: {', '.join(names)}, {reason}" for reason, names in left_out.items()]
    return tuple(dict.fromkeys(found)), tuple(notes)


def baselines_text(baselines: Iterable[Baseline]) -> str:
    """Return a short text for which `find_baselines` returns these baselines."""
    given = list(baselines)
    for name in ("none", "classic", "modern"):
        if sorted(map(str, given)) == sorted(map(str, _members(name, {}))):
            return name
    return ",".join(f"{b}+constant" if b.schedule == "constant" else str(b) for b in given)


def _members(name: str, own: Mapping[str, Baseline]) -> list[Baseline]:
    sets: dict[str, Iterable[Baseline]] = {
        "classic": own.values() if own == classic else by_likelihood(classic.values()),
        "modern": modern.values(),
        "all": by_likelihood(_set(_ALL)),
        "task": own.values(),
        "none": (),
    }
    return list(sets[name])


def _named(text: str) -> list[Baseline]:
    """Return the baselines of a name with or without a schedule.

    Raises:
        TaskError: The name is unknown, or the optimizer is not installed.
    """
    of_package = [key for key in KNOWN if key.startswith(f"{text}:")]
    optimizer = find_optimizer(text)
    if "+" in text or text == APGD:
        found = [Baseline.parse(text)]
    elif of_package or optimizer is not None:
        found = _set([optimizer] if optimizer else of_package)
    else:
        known = [*SETS, *(key.rpartition(":")[2] for key in KNOWN)]
        hint = did_you_mean(text, known) or f"; known: {', '.join(dict.fromkeys(known))}"
        raise TaskError(f'there is no baseline "{text}"{hint}')
    for baseline in found:
        baseline.check()
    return by_likelihood(found)
