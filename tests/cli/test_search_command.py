"""`search`, `evaluate`, `report` and `tasks` as people run them."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optsmith import Study
from optsmith.cli import main
from optsmith.report._command import search_command

SMOKE = ("search", "digits", "--preset", "smoke", "--no-baselines")


def optsmith(*arguments: str, folder: Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "optsmith", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=240,
        **options,
    )


@pytest.fixture(scope="module")
def searched(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("searched")
    return folder, optsmith(
        "search", "digits", "--preset", "smoke", "--workers", "2", "--json", folder=folder
    )


def test_json_is_all_there_is_on_stdout(searched):
    _, done = searched
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {"best", "top", "baselines", "counts", "settings", "seconds"} <= set(result)
    assert {"rule", "lr", "search_score", "held_out_score"} <= set(result["best"])
    assert 1 <= len(result["baselines"]) <= 18  # those that the race left
    assert result["best"]["rule"] in [found["rule"] for found in result["top"]]
    refused = result["counts"].pop("refused")
    drawn = result["counts"].pop("drawn")
    assert drawn == sum(result["counts"].values()) + sum(refused.values())


def test_progress_goes_to_stderr_in_plain_lines(searched):
    _, done = searched
    assert "digits: mct search for 8 rules, seed 0, 2 workers" in done.stderr
    assert "level 1: 3 accepted" in done.stderr  # a quarter of the 8 are known rules
    assert "\x1b" not in done.stderr


def test_the_same_command_again_gives_the_result_at_once(searched):
    folder, first = searched
    again = optsmith("search", "digits", "--preset", "smoke", "--json", folder=folder)
    assert json.loads(again.stdout)["top"] == json.loads(first.stdout)["top"]


def test_without_json_there_is_a_table_and_a_page(searched):
    folder, _ = searched
    done = optsmith("search", "digits", "--preset", "smoke", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "torch:adam" in done.stdout
    assert "cite it:  optsmith card digits-smoke-mct-0" in done.stdout
    page = folder / "optsmith-studies" / "digits-smoke-mct-0.html"
    assert f"report: {page.relative_to(folder)}" in done.stderr
    text = page.read_text()
    assert text.casefold().startswith("<!doctype html>")
    assert "optsmith search digits <span>--preset</span> smoke" in text


def test_a_report_can_be_had_again_in_every_form(searched):
    folder, done = searched
    name = "digits-smoke-mct-0"
    journal = f"optsmith-studies/{name}.journal"
    for study in (name, journal):
        assert optsmith("report", study, "-o", "page.html", folder=folder).returncode == 0
        assert "digits" in (folder / "page.html").read_text()
    rows = list(
        csv.DictReader(io.StringIO(optsmith("report", name, "--csv", folder=folder).stdout))
    )
    data = json.loads(optsmith("report", name, "--json", folder=folder).stdout)
    assert [row["rule"] for row in rows] == [row["rule"] for row in data["candidates"]]
    evaluated = json.loads(done.stdout)["counts"]
    kinds = ("accepted", "early_stopped", "diverged", "failed", "timed_out", "rejected")
    assert len(rows) == sum(evaluated[kind] for kind in kinds)


def test_evaluate_prints_the_table(tmp_path):
    recipes = ("m1 + RMSprop", "nesterov", "torch:adam+linear")
    done = optsmith("evaluate", "digits", *recipes, "--preset", "smoke", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("m1 + RMSprop", "g + 0.9*m1", "torch:adam+linear", "test accuracy", "±"):
        assert name in done.stdout
    data = optsmith("evaluate", "digits", "m1", "--preset", "smoke", "--json", folder=tmp_path)
    (row,) = json.loads(data.stdout)["rows"]
    assert row["recipe"] == "m1"
    assert not list(tmp_path.iterdir())


def test_tasks_are_listed(tmp_path):
    done = optsmith("tasks", folder=tmp_path)
    assert "mnistnet-2layer" in done.stdout
    names = {row["name"] for row in json.loads(optsmith("tasks", "--json", folder=tmp_path).stdout)}
    assert {"digits", "mnistnet"} <= names


def test_the_options_of_searchers_are_options_of_the_command(tmp_path):
    text = " ".join(optsmith("search", "--help", folder=tmp_path).stdout.split())
    assert "--levels INTEGER Levels of the super-tree to descend. (mct)" in text
    assert "--count-all / --no-count-all" in text
    assert "not only accepted ones. (mct, random, uct)" in text
    assert (
        "--rungs TEXT Fidelities of successive halving, such as 0.1,0.3,1."
        " (mct, random, uct, evolution)" in text
    )
    assert "--exploration FLOAT Weight of the bonus of nodes with few draws. (uct)" in text
    assert "--start-from RULE|zoo|STUDY|FILE" in text
    assert "--warm-start / --no-warm-start" in text
    names = "mct, random, mixture, uct, evolution"
    assert f"{names}, or a searcher of your own as file.py:Class" in text


def test_they_reach_the_study_and_the_command_that_repeats_it(tmp_path):
    given = ("--algorithm", "random", "--rungs", "0.5,1", "--count-all", "--stack", "4")
    given += ("--no-warm-start",)
    done = optsmith(*SMOKE, *given, "--budget", "4", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    settings = json.loads(done.stdout)["settings"]
    assert settings["options"] == {"rungs": "0.5,1", "draws": 18000, "count_all": True}
    assert settings["stack"] == 4
    page = optsmith("report", "digits-smoke-random-0", "--json", folder=tmp_path)
    rows = json.loads(page.stdout)["candidates"]
    assert {(row["phase"], row["fidelity"]) for row in rows} == {
        ("rung 50 %", 0.5),
        ("rung 100 %", 1.0),
    }
    study = Study.load("digits-smoke-random-0", tmp_path / "optsmith-studies")
    command = search_command(study)
    assert "--algorithm random --space paper --budget 4 --seed 0" in command
    assert "--no-warm-start --no-refine" in command
    assert "--rungs 0.5,1 --draws 18000 --count-all" in command
    assert command.endswith("--baselines none")


BAD = [
    (("search", "digit"), 'did you mean "digits"'),
    (("search", "mine.py:task"), "there is no file mine.py"),
    ((*SMOKE, "--budget", "0"), "budget must be at least 1"),
    ((*SMOKE, "--lrs", "0.1,x"), "is not a list of numbers"),
    ((*SMOKE, "--lrs", "0,1"), "must be positive"),
    ((*SMOKE, "--algorithm", "mtc"), 'did you mean "mct"'),
    ((*SMOKE, "--algorithm", "mine.py:Mine"), "there is no file mine.py"),
    ((*SMOKE, "--algorithm", "random", "--levels", "2"), 'random has no option "levels"'),
    ((*SMOKE, "--option", "levls=2"), 'did you mean "levels"'),
    ((*SMOKE, "--option", "levels"), 'takes NAME=VALUE, not "levels"'),
    ((*SMOKE, "--option", "levels=two"), "must be an integer, not 'two'"),
    ((*SMOKE, "--algorithm", "random", "--rungs", "0.5"), "such as 0.1,0.3,1"),
    ((*SMOKE, "--stack", "0"), "--stack"),
    ((*SMOKE, "--space", "none"), 'there is no space named "none"'),
    ((*SMOKE, "--preset", "slow"), "has no preset"),
    ((*SMOKE, "--device", "warp"), "warp"),
    ((*SMOKE, "--storage", "/proc/none"), "/proc/none"),
    ((*SMOKE, "--study", "a/b"), "a/b"),
    ((*SMOKE, "--workers", "-1"), "-1"),
    ((*SMOKE, "--workers", "0", "--time-limit", "3"), "worker"),
    (("evaluate", "digits"), "nothing to evaluate"),
    (("evaluate", "digits", "torch:adm"), 'did you mean "adam"'),
    (("evaluate", "digits", "torch:adam+step"), '"step" is unknown'),
    (("evaluate", "digits", "g +"), "position"),
    (("report", "nothing"), "nothing"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path, monkeypatch, capsys, arguments, message
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["optsmith", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    out, errors = capsys.readouterr()
    (line,) = errors.splitlines()
    assert message in line
    assert not out
    assert not list(tmp_path.iterdir())


def test_passwords_reach_nothing(tmp_path):
    url = "postgresql://me:s3cret@127.0.0.1:1/none"
    done = optsmith(*SMOKE, "--storage", url, folder=tmp_path)
    assert done.returncode == 2
    assert "s3cret" not in done.stdout + done.stderr


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "optsmith", *SMOKE, "--budget", "400", "--workers", "2"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    journal = tmp_path / "optsmith-studies" / "digits-smoke-mct-0.journal"
    until = time.monotonic() + 120
    while not journal.exists() or b'"candidate"' not in journal.read_bytes():
        assert time.monotonic() < until
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The same command resumes the search" in errors
    assert "Traceback" not in errors
    page = optsmith("report", "digits-smoke-mct-0", folder=tmp_path)
    assert page.returncode == 0, page.stderr
    again = optsmith(*SMOKE, "--budget", "2", folder=tmp_path)
    assert again.returncode == 0, again.stderr
