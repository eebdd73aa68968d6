"""The command that repeats a search."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from optsmith.searchers import searchers
from optsmith.space import spaces
from optsmith.study import Study

_PROTOCOL = ("proxy_steps", "steps", "final_steps", "score_seeds", "final_seeds", "lr_search")


def search_command(study: Study) -> str:
    """Return the command that makes a study with the same settings.

    It gives every setting, so it does not depend on presets. It is empty if there is no such
    command: the task, the space or the searcher was made in Python.
    """
    settings, source = study.settings, study.about["source"]
    algorithm = settings["algorithm"]
    named = algorithm in searchers or ":" in algorithm
    if not source or not named or settings["space"] not in spaces:
        return ""
    words = ["optsmith", "search", source]
    for name in ("preset", "algorithm", "space", "budget", "seed", "proposals", "dedupe", "device"):
        words += [f"--{name}", str(settings[name])]
    for name in ("descent", "trajectory"):
        words.append(_switch(f"{name}-test", settings[name]))
    for name in ("time_limit", "stack"):
        if settings[name] is not None:
            words += [_flag(name), str(settings[name])]
    words += _protocol(settings["protocol"])
    words += _options(settings["options"], registered=algorithm in searchers)
    if study.finished and not study.final.baselines:
        words.append("--no-baselines")
    return shlex.join(words)


def _protocol(protocol: Mapping[str, Any]) -> list[str]:
    words = ["--lrs", ",".join(map(repr, protocol["lrs"]))]
    for name in _PROTOCOL:
        words += [_flag(name), str(protocol[name])]
    tune_steps, threshold = protocol["tune_steps"], protocol["threshold"]
    words += ["--tune-steps", "proxy" if tune_steps is None else str(tune_steps)]
    words += ["--no-threshold"] if threshold is None else ["--threshold", repr(threshold)]
    return [*words, *(_switch(name, protocol[name]) for name in ("extend_grid", "early_stop"))]


def _options(options: Mapping[str, Any], *, registered: bool) -> list[str]:
    """Return the searcher's options; the command has flags for those of registered searchers."""
    words = []
    for name, value in options.items():
        if not registered:
            words += ["--option", f"{name}={value}"]
        elif isinstance(value, bool):
            words.append(_switch(name, value))
        else:
            words += [_flag(name), str(value)]
    return words


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _switch(name: str, value: bool) -> str:
    return _flag(name if value else f"no-{name}")
