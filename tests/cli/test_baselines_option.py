"""`--baselines` of `search` and `evaluate`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from optsmith import Study, TaskError
from optsmith.cli._main import cli

DIGITS = ("digits", "--preset", "smoke", "--workers", "0")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def call(*words):
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def test_evaluate_takes_names_of_baselines():
    chosen = "sgd+constant,optsmith:lion+warmup-cosine"
    done = call("evaluate", *DIGITS, "g", "--baselines", chosen, "--json")
    rows = {row["recipe"]: row["status"] for row in json.loads(done.stdout)["rows"]}
    assert rows == {"g": "ok", "torch:sgd": "ok", "optsmith:lion+warmup-cosine": "ok"}


def test_search_compares_with_the_chosen_baselines():
    words = ("search", *DIGITS, "--budget", "2", "--study", "few", "--baselines")
    assert call(*words, "radam+cosine,sgd+linear").exit_code == 0
    settings = Study.load("few").settings
    assert list(settings["opponents"]) == ["torch:radam+cosine", "torch:sgd+linear"]


def test_an_unknown_baseline_is_refused():
    with pytest.raises(TaskError, match='no baseline "adamx"; did you mean "adam'):
        call("search", *DIGITS, "--baselines", "adamx")
