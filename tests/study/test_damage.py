"""Journals that were changed by hand: one sentence and nothing written, never a traceback."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optsmith
from optsmith import Evaluation, Status, Study, StudyError
from optsmith.cli import main
from optsmith.cli._result import study_json
from optsmith.optim import Baseline
from optsmith.report import render, report_data
from tasks_for_tests import PROTOCOL, bowl

NAME = "bowl-quick-mct-0"
SETTINGS = {
    "budget": 4,
    "options": {"levels": 2},
    "workers": 0,
    "proposals": 1,
    "baselines": [Baseline("sgd")],
    "protocol": PROTOCOL.replace(proxy_steps=3, steps=3, final_steps=4),
}

Journal = list[dict]
Path_ = tuple[str | int, ...]


def search(folder: Path) -> Study:
    return optsmith.search(bowl(), storage=folder, **SETTINGS)


def lines_of(journal: Path) -> Journal:
    return [json.loads(line) for line in journal.read_text().splitlines()]


def made() -> Journal:
    with TemporaryDirectory() as folder:
        search(Path(folder))
        return lines_of(Path(folder, f"{NAME}.journal"))


JOURNAL = made()


def paths(value, path: Path_ = ()) -> list[Path_]:
    """Return the paths of all values; of long lists, those of the first two items."""
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value[:2]))
    else:
        inside = []
    return [path, *(p for key, item in inside for p in paths(item, (*path, key)))]


PLACES = [(n, path) for n, line in enumerate(JOURNAL) for path in paths(line) if path]
GONE = "(deleted)"
VALUES = [
    GONE, None, True, 0, -1, 7, 2.5, 1e308, float("nan"), 10**400, "", "ok", "okay", [], [None],
    [[1]], {}, {"x": 1},
]  # fmt: skip


NUMBERS = st.integers(0, len(JOURNAL) - 1)
VALUE_CHANGES = st.tuples(st.just("set"), st.sampled_from(PLACES), st.sampled_from(VALUES))
LINE_CHANGES = st.tuples(st.sampled_from(["delete", "duplicate", "swap"]), NUMBERS, NUMBERS)
CHANGES = st.lists(VALUE_CHANGES, min_size=1, max_size=2) | st.tuples(LINE_CHANGES)


def changed(changes) -> Journal:
    """Return the journal with values changed or deleted, or lines deleted, repeated or swapped."""
    journal = copy.deepcopy(JOURNAL)
    for kind, one, other in changes:
        if kind == "set":
            change(journal[one[0]], one[1], other)
        elif kind == "delete":
            del journal[one]
        elif kind == "duplicate":
            journal.insert(other, copy.deepcopy(journal[one]))
        else:
            journal[one], journal[other] = journal[other], journal[one]
    return journal


def change(line: dict, path: Path_, value: object) -> None:
    """Set or delete the value at a path, if it is still there."""
    *way, last = path
    inside = line
    for key in way:
        try:
            inside = inside[key]
        except (KeyError, IndexError, TypeError):
            return
    if value != GONE and isinstance(inside, dict | list) and (isinstance(inside, dict) or inside):
        inside[last] = value
    elif isinstance(inside, dict):
        inside.pop(last, None)


def write(folder: str, journal: Journal) -> Path:
    path = Path(folder, f"{NAME}.journal")
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in journal))
    return path


def complaint(action: Callable[..., object], *arguments: object) -> str:
    """Return the StudyError that an action raises, as text; empty if it succeeds."""
    try:
        action(*arguments)
    except StudyError as error:
        return str(error)
    return ""


def read_everything(folder: str) -> None:
    study = Study.load(NAME, folder)
    render(report_data(study))
    json.dumps(study_json(study), allow_nan=False)
    study.table()
    repr(study)


@settings(max_examples=300)
@given(CHANGES)
def test_reading_a_changed_journal_works_or_says_what_is_wrong(changes):
    with TemporaryDirectory() as folder:
        path = write(folder, changed(changes))
        before = path.read_bytes()
        assert len(complaint(read_everything, folder).splitlines()) <= 1
        assert path.read_bytes() == before


@settings(max_examples=60)
@given(CHANGES)
def test_resuming_a_changed_journal_works_or_writes_nothing(changes):
    with TemporaryDirectory() as folder:
        path = write(folder, changed(changes))
        before = path.read_bytes()
        if says := complaint(search, Path(folder)):
            assert len(says.splitlines()) == 1
            assert path.read_bytes() == before


def attribute(name: str) -> int:
    """Return the last line that sets an attribute of the study."""
    return max(n for n, line in enumerate(JOURNAL) if name in line.get("user_attr", {}))


TRIAL = next(n for n, line in enumerate(JOURNAL) if "user_attrs" in line)
EVALUATION = ("user_attrs", "evaluation")
FINAL = next(k for line in JOURNAL for k in line.get("user_attr", {}) if k.startswith("final:"))


def in_attribute(name: str, *path: str | int) -> tuple[int, Path_]:
    return attribute(name), ("user_attr", name, *path)


CASES = [
    ((TRIAL, ("user_attrs", "fidelity")), GONE, 'the field "fidelity" is missing'),
    ((TRIAL, ("user_attrs", "block")), "two", "block: 'two' is not an integer"),
    ((TRIAL, (*EVALUATION, "grid")), GONE, 'the field "grid" is missing'),
    ((TRIAL, (*EVALUATION, "status")), "okay", "status: 'okay' is not one of ok, rejected"),
    ((TRIAL, (*EVALUATION, "recipe")), "g + g", "it is of the rule g + g, not"),
    ((TRIAL, (*EVALUATION, "extra")), 1, 'there is an unknown field "extra"'),
    ((TRIAL, ("user_attrs",)), 3, "its attributes are not an object"),
    (in_attribute("summary", "evaluated", 0), ["9:9", 1.0], "('9:9', 1.0), which is not in the st"),
    (in_attribute("summary", "compared"), ["sign(g)"], "'sign(g)', which is not in the study"),
    (in_attribute("summary", "compared"), None, "finished, but nothing was compared"),
    (in_attribute("summary", "counts", "refused"), [], "counts: refused: [] is not an object"),
    (in_attribute("settings", "protocol"), GONE, 'the field "protocol" is missing'),
    (in_attribute("settings", "protocol", "lrs"), [1, 0.1], "protocol: "),
    (in_attribute("settings", "dedupe"), "maybe", 'dedupe'),
    (in_attribute("settings"), 7, "7 is not an object"),
    (in_attribute("about", "objective", "direction"), "up", "objective: direction: 'up' is not"),
    (in_attribute("about"), GONE, '"about"'),
    (in_attribute(FINAL), [], "[] is not an object"),
    (in_attribute(FINAL, "recipe"), "g", "it is not the place of g"),
    (in_attribute("optsmith:schema"), "2", "its schema is '2', not an integer"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value", "says"), CASES)
def test_a_command_says_what_is_damaged_and_what_to_do(
    tmp_path, monkeypatch, capsys, place, value, says
):
    journal = copy.deepcopy(JOURNAL)
    change(journal[place[0]], place[1], value)
    if "about" in place[1] and value == GONE:
        del journal[place[0]]  # an operation without an attribute would not be replayed
    path = write(str(tmp_path), journal)
    before = path.read_bytes()
    for options in ([], ["--json"], ["--csv"]):
        monkeypatch.setattr(sys, "argv", ["optsmith", "report", str(path), *options])
        with pytest.raises(SystemExit) as end:
            main()
        out, errors = capsys.readouterr()
        assert (end.value.code, out) == (2, "")
        (line,) = errors.splitlines()
        assert says in line
        assert "restore the study from a backup, or give another --study" in line
    with pytest.raises(StudyError) as caught:
        search(tmp_path)
    assert says in str(caught.value)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("*.html"))


def test_a_study_without_the_settings_of_a_search_is_not_taken_for_a_new_one(tmp_path):
    path = write(
        str(tmp_path), [line for line in JOURNAL if "settings" not in line.get("user_attr", {})]
    )
    before = path.read_bytes()
    with pytest.raises(StudyError, match="has no search in it yet"):
        Study.load(NAME, tmp_path)
    with pytest.raises(StudyError, match="has data, but not the settings of a search"):
        search(tmp_path)
    assert path.read_bytes() == before


def test_a_comparison_s_study_is_checked_too(tmp_path):
    kept = {"workers": 0, "storage": tmp_path, "study": "table", "protocol": PROTOCOL}
    optsmith.evaluate(bowl(), ["g"], **kept)
    path = tmp_path / "table.journal"
    lines = lines_of(path)
    for name in ("evaluates", "final:"):
        number = next(
            n for n, line in enumerate(lines) for k in line.get("user_attr", {}) if name in k
        )
        damaged = copy.deepcopy(lines)
        (key,) = damaged[number]["user_attr"]
        damaged[number]["user_attr"][key] = {"x": 1}
        path.write_text("".join(json.dumps(line) + "\n" for line in damaged))
        with pytest.raises(StudyError, match="is damaged"):
            optsmith.evaluate(bowl(), ["g"], **kept)


def test_scores_and_rates_belong_to_accepted_evaluations():
    good = Evaluation("g", Status.OK, score=1.0, lr=0.1).to_json()
    assert Evaluation.from_json(good).score == 1.0
    for missing in ("score", "lr"):
        with pytest.raises(StudyError, match="no score or no learning rate"):
            Evaluation.from_json(good | {missing: None})
    assert Evaluation.from_json(good | {"recipe": "apgd", "lr": None}).lr is None


def test_a_replay_that_fails_leaves_the_summary(tmp_path):
    """A finished search stays finished when a changed searcher cannot continue it."""
    journal = copy.deepcopy(JOURNAL)
    journal[TRIAL]["user_attrs"]["block"] = 3
    path = write(str(tmp_path), journal)
    before = path.read_bytes()
    with pytest.raises(StudyError, match="cannot be resumed: its candidate"):
        search(tmp_path)
    assert path.read_bytes() == before
