"""The command that repeats a search."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from optsmith.optim import Baseline, baselines_text
from optsmith.searchers import searchers
from optsmith.space import spaces
from optsmith.storage import journal_path
from optsmith.study import Study

_PROTOCOL = ("proxy_steps", "steps", "final_steps", "score_seeds", "final_seeds", "lr_search")


_LIMITS = (
    "max_time", "patience", "max_cost", "proxy", "max_state_bytes", "max_step_cost", "time_limit",
    "stack",
)  # fmt: skip


def search_command(study: Study) -> str:
    """Return the command that makes a study with the same settings.

    It gives every setting, so it does not depend on presets; settings that a limited time or a
    proxy changes are left to these. It is empty if there is no such command: the task, the space,
    the searcher or the proxy was made in Python.
    """
    settings, source = study.settings["asked"] or study.settings, study.about["source"]
    algorithm = settings["algorithm"]
    named = algorithm in searchers or ":" in algorithm
    proxy = settings["proxy"]
    in_python = proxy and "=" not in proxy and ":" not in proxy
    if not source or not named or in_python or settings["space"] not in spaces:
        return ""
    planned = settings["max_time"] is not None or proxy
    words = ["optsmith", "search", source]
    for name in ("preset", "algorithm", "space", "budget", "seed", "proposals", "dedupe", "device"):
        if not (planned and name in ("budget", "proposals")):
            words += [_flag(name), str(settings[name])]
    for name in ("descent", "trajectory"):
        words.append(_switch(f"{name}-test", settings[name]))
    words.append(_switch("warm-start", settings["warm_start"]))
    for rule in settings["start_from"] or settings["start_given"]:
        words += ["--start-from", rule]
    words.append(_switch("refine", bool(settings.get("refine"))))
    words += ["--equally-tuned"] if settings.get("equally_tuned") else []
    for name in _LIMITS:
        if settings[name] not in (None, ""):
            words += [_flag(name), str(settings[name])]
    words += [] if planned else _protocol(settings["protocol"])
    words += _options(settings["options"], registered=algorithm in searchers)
    words += ["--baselines", baselines_text(map(Baseline.parse, settings["opponents"]))]
    return shlex.join(words)


def search_call(study: Study) -> str:
    """Return the Python call that makes a study with the same settings, given its task.

    Changes of the protocol and options of the searcher are not in it.
    """
    settings = study.settings["asked"] or study.settings
    names = ["preset", "algorithm", "space", "seed", *_LIMITS]
    names += ["budget", "proposals"] if settings["max_time"] is None else []
    given = {name: settings[name] for name in names if settings[name] not in (None, "")}
    if settings["start_from"]:
        given["start_from"] = list(settings["start_from"])
    if not settings["warm_start"]:
        given["warm_start"] = False
    given["baselines"] = baselines_text(map(Baseline.parse, settings["opponents"]))
    return f"optsmith.search(task, {', '.join(f'{key}={value!r}' for key, value in given.items())})"


def study_arguments(study: Study) -> str:
    """Return the arguments by which commands such as `optsmith card` find a study."""
    if study.location == str(journal_path(None, study.name)):
        return shlex.quote(study.name)
    return shlex.join([study.name, "--storage", study.location])


def _protocol(protocol: Mapping[str, Any]) -> list[str]:
    words = ["--lrs", ",".join(map(repr, protocol["lrs"]))]
    for name in _PROTOCOL:
        words += [_flag(name), str(protocol[name])]
    tune_steps, threshold = protocol["tune_steps"], protocol["threshold"]
    words += ["--tune-steps", "proxy" if tune_steps is None else str(tune_steps)]
    words += ["--no-threshold"] if threshold is None else ["--threshold", str(threshold)]
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
