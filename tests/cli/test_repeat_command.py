"""The command that a report prints makes a search with the same settings."""

from __future__ import annotations

import shlex
import sys
from functools import cache
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optsmith
from optsmith import Study
from optsmith.cli import main
from optsmith.cli._main import cli
from optsmith.report._command import search_command
from optsmith.study import Settings
from optsmith.task import find_task
from tasks_for_tests import bowl

SEARCHER = """
from dataclasses import dataclass
from optsmith.searchers import RandomSearch, option

class Mine(RandomSearch):
    @dataclass(frozen=True)
    class Options(RandomSearch.Options):
        share: float = option(0.1, "A share.")
        name: str = option("a b", "A name.")
"""


class Made(Exception):  # noqa: N818 - not an error
    """Carries the settings that a command makes."""


def stop(**values):
    raise Made(Settings(**values).to_json())


found_once = cache(find_task)


def settings_of(words: list[str]) -> dict:
    """Return the settings of a search command, without running it."""
    with (
        mock.patch("optsmith.study._prepare.Settings", stop),
        mock.patch("optsmith.task.find_task", found_once),
        pytest.raises(Made) as made,
    ):
        cli.main(words, standalone_mode=False)
    return made.value.args[0]


def command_of(made: dict, source: str = "digits") -> str:
    return search_command(SimpleNamespace(settings=made, about={"source": source}, finished=False))


COUNTS = st.integers(1, 50).map(str)
RATES = st.floats(1e-9, 1e3).map(repr)
OPTIONS = {
    "--preset": st.sampled_from(["quick", "paper", "smoke"]),
    "--budget": COUNTS,
    "--proposals": COUNTS,
    "--seed": st.integers(-3, 1000).map(str),
    "--space": st.sampled_from(["paper", "convnet"]),
    "--dedupe": st.sampled_from(["none", "equal", "scale"]),
    "--lrs": st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=4, unique=True).map(
        lambda rates: ",".join(map(repr, rates))
    ),
    "--steps": COUNTS,
    "--proxy-steps": COUNTS,
    "--final-steps": COUNTS,
    "--tune-steps": COUNTS | st.just("proxy"),
    "--score-seeds": COUNTS,
    "--final-seeds": COUNTS,
    "--lr-search": st.sampled_from(["grid", "halving", "auto"]),
    "--threshold": st.floats(-1e3, 1e3).map(repr) | st.just("untrained"),
    "--time-limit": RATES,
    "--stack": COUNTS,
    "--patience": COUNTS,
    "--max-cost": RATES,
    "--max-state-bytes": st.integers(0, 16).map(str),
    "--max-step-cost": RATES,
    "--start-from": st.sampled_from(["g + m1", "-g", "ld*sign(m1) - Adam @ 0.25"]),
    "--baselines": st.sampled_from(
        ["task", "classic", "none", "adam", "sgd+constant,adamw+cosine"]
    ),
    "--device": st.sampled_from(["cpu", "cpu:0"]),
}
SWITCHES = (
    "--extend-grid", "--no-extend-grid", "--early-stop", "--no-early-stop", "--no-threshold",
    "--descent-test", "--no-descent-test", "--trajectory-test", "--no-trajectory-test",
    "--warm-start", "--no-warm-start", "--refine", "--no-refine",
)  # fmt: skip
SEARCHERS = {
    "mct": {"--levels": COUNTS, "--count-all": None, "--no-count-all": None},
    "random": {"--rungs": st.sampled_from(["1", "0.5,1"]), "--draws": COUNTS},
    "uct": {"--exploration": RATES, "--widening": RATES, "--rungs": st.just("0.5,1")},
    "evolution": {"--children": COUNTS, "--tuning": st.sampled_from(["0", "0.25"])},
}


@st.composite
def commands(draw: st.DrawFn) -> list[str]:
    algorithm = draw(st.sampled_from(list(SEARCHERS)))
    options = {**OPTIONS, **SEARCHERS[algorithm]}
    words = ["search", "digits", "--algorithm", algorithm]
    for name in draw(st.lists(st.sampled_from(list(options)), unique=True)):
        words += [name] if options[name] is None else [name, draw(options[name])]
    return words + draw(st.lists(st.sampled_from(SWITCHES), unique=True))


@settings(max_examples=100)
@given(commands())
def test_the_printed_command_makes_the_same_settings(words):
    made = settings_of(words)
    optsmith_word, *again = shlex.split(command_of(made))
    assert optsmith_word == "optsmith"
    assert settings_of(again) == made


def test_so_does_that_of_a_task_and_a_searcher_in_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine too.py").write_text(SEARCHER)
    (tmp_path / "task.py").write_text("from tasks_for_tests import bowl\ntask = bowl()\n")
    words = ["search", "task.py:task", "--algorithm", "mine too.py:Mine"]
    words += ["--option", "share=0.25", "--option", "name=it's mine", "--option", "count_all=yes"]
    made = settings_of(words)
    assert made["options"]["name"] == "it's mine"
    command = command_of(made, source="task.py:task")
    assert command.startswith("optsmith search task.py:task --preset quick --algorithm 'mine too")
    assert settings_of(shlex.split(command)[1:]) == made


def test_a_report_prints_it_whoever_writes_the_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.py").write_text("from tasks_for_tests import bowl\ntask = bowl()\n")
    words = ["search", "task.py:task", "--budget", "2", "--workers", "0", "--no-baselines"]
    monkeypatch.setattr(sys, "argv", ["optsmith", *words])
    main()
    study = Study.load("bowl-quick-mct-0")
    command = search_command(study)
    assert command.startswith("optsmith search task.py:task ")
    assert command.endswith(" --baselines none")
    assert settings_of(shlex.split(command)[1:]) == study.settings
    monkeypatch.setattr(sys, "argv", ["optsmith", "report", study.name, "-o", "page.html"])
    main()
    assert "task.py:task" in (tmp_path / "page.html").read_text()
    capsys.readouterr()


def test_what_only_python_can_make_has_no_command(tmp_path):
    small = {"budget": 2, "options": {"levels": 1}, "workers": 0, "baselines": [], "proposals": 1}
    study = optsmith.search(bowl(), storage=tmp_path, **small)
    assert search_command(study) == ""
    known = dict(study.settings)
    assert command_of(known)
    assert not command_of({**known, "space": "my own"})
    assert not command_of({**known, "algorithm": "Mine"})
    assert not command_of({**known, "proxy": "my small task"})


def test_settings_of_a_plan_are_left_to_the_plan(tmp_path):
    small = {"budget": 2, "options": {"levels": 1}, "workers": 0, "baselines": [], "proposals": 1}
    known = dict(optsmith.search(bowl(), storage=tmp_path, **small).settings)
    asked = {**known, "max_time": 360.0, "patience": 9}
    command = command_of({**known, "budget": 77, "asked": asked})
    assert "--max-time 360.0 --patience 9" in command
    assert "--budget" not in command
    assert "--final-steps" not in command
    assert "--proxy steps=0.1" in command_of({**known, "proxy": "steps=0.1"})
