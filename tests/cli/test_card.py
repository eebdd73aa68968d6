"""`optsmith card`, and what else shows the claim of a study."""

from __future__ import annotations

import json
import sys

import pytest

import optsmith
from optsmith import Study
from optsmith.cli import main
from optsmith.cli._result import study_json
from optsmith.report import card, report_data
from optsmith.task import Task, presets_for
from tasks_for_tests import quadratic


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    task = Task.from_function(quadratic, steps=20, name="claimed", description="A *bowl*.")
    return optsmith.search(
        task, preset="smoke", storage=tmp_path_factory.mktemp("card"), workers=0, budget=3,
        options={"levels": 1}, proposals=1, baselines="sgd,adam",
    )  # fmt: skip


def run(monkeypatch, capsys, *words: object) -> str:
    monkeypatch.setattr(sys, "argv", ["optsmith", *map(str, words)])
    main()
    return capsys.readouterr().out


def test_it_is_printed_or_written(study, monkeypatch, capsys, tmp_path):
    printed = run(monkeypatch, capsys, "card", study.location)
    assert printed == card(study)
    path = tmp_path / "card.md"
    where = str(study.location).rpartition("/")[0]
    assert run(monkeypatch, capsys, "card", study.name, "--storage", where, "-o", path) == ""
    assert path.read_text() == printed


def test_its_numbers_are_those_of_the_claim(study):
    claim = study.claim
    assert presets_for(20)["smoke"].contest.checks
    text = card(study)
    assert study.verdict.partition(". ")[0].replace("*", "\\*") in text
    assert f"{claim.paired.seeds} seeds" in text
    assert f"`{claim.opponent}`" in text
    assert all(check.setting in text for check in claim.checks)
    assert f"| total | {sum(claim.trained.values()):,} |" in text
    assert "description: A \\*bowl\\*." in text
    assert f"{len(study.final.baselines) + len(study.raced)} combinations" in text
    assert "optsmith.search(task, preset='smoke'" in text  # the task was made in Python


def test_the_table_has_the_change_of_the_claim(study):
    rows = {row["label"]: row for row in report_data(study)["final"]["rows"]}
    assert rows[study.claim.rule]["change"]["change"] == study.claim.paired.change
    assert rows[study.claim.opponent]["change"] is None


def test_json_has_claim_and_recommendation(study):
    data = json.loads(json.dumps(study_json(study), allow_nan=False))
    assert data["recommended"]["recipe"] == study.claim.recommended
    assert data["recommended"]["lr"] == study.recommended.lr
    assert data["claim"]["opponent"] == study.claim.opponent
    assert data["claim"]["paired"]["seeds"] == study.claim.paired.seeds
    assert data["claim"]["checks"][0]["setting"] == study.claim.checks[0].setting
    assert data["known"] == study.best().known


def test_a_study_without_rules_has_none(tmp_path, monkeypatch, capsys):
    task = Task.from_function(quadratic, steps=20, name="empty")
    protocol = task.preset("smoke").protocol.replace(threshold=-1.0)
    study = optsmith.search(
        task, preset="smoke", protocol=protocol, storage=tmp_path, workers=0, budget=2,
        options={"levels": 1}, baselines=[],
    )  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["optsmith", "card", study.name, "--storage", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert "has not accepted any rule" in capsys.readouterr().err
