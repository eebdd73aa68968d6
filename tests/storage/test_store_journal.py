"""Journals: what a kill leaves is repaired, what is not ours is left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend, JournalStorage
from store_samples import ONLY_THE_STORE, sample, varied

from optsmith._errors import StudyError
from optsmith.storage._mark import SCHEMA
from optsmith.storage._store import Store, list_studies


def make(path: Path, count: int) -> bytes:
    """Make a journal and return its bytes."""
    with Store.open(path, "s") as store:
        for record in varied(count):
            store.add(record)
    return path.read_bytes()


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that reopen hundreds of times: it matters to the loss of power alone."""
    monkeypatch.setattr("os.fsync", lambda file: None)


@pytest.mark.usefixtures("no_fsync")
def test_cut_at_every_byte_of_the_last_line(tmp_path):
    path = tmp_path / "s.journal"
    short = {"lr": None, "curve": (), "data": {}}
    records = [sample(i, **short) for i in range(3)]
    with Store.open(path, "s") as store:
        for record in records:
            store.add(record)
    whole = path.read_bytes()
    start = whole[:-1].rindex(b"\n") + 1
    for end in range(start, len(whole)):
        path.write_bytes(whole[:end])
        with Store.open(path, "s", read_only=True) as reader:
            assert reader.records() == records[:2]
        assert path.read_bytes() == whole[:end]
        with Store.open(path, "s", create=False) as store:
            assert store.records() == records[:2]
            store.add(records[2])
            assert store.records() == records
        kinds = [json.loads(line)["op_code"] for line in path.read_bytes().splitlines()]
        assert kinds == [0, 2, 4, 4, 4]


@pytest.mark.usefixtures("no_fsync")
def test_cut_at_every_byte_of_a_new_journal(tmp_path):
    path = tmp_path / "s.journal"
    whole = make(path, 0)
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with Store.open(path, "s", direction="minimize") as store:
            store.add(sample(0))
        with Store.open(path, "s", create=False) as store:
            assert store.records() == [sample(0)]
            assert store.attrs == {"optsmith:schema": SCHEMA}


def test_a_last_line_of_rubbish_is_cut_before_something_is_written(tmp_path):
    path = tmp_path / "s.journal"
    whole = make(path, 2)
    for rubbish in (b"\x00" * 100, b"\x00" * 50 + b"\n", b'{"op_code":4,\n', b"\n", b"[]\n"):
        path.write_bytes(whole + rubbish)
        with Store.open(path, "s", read_only=True) as reader:
            assert len(reader.records()) == 2
        with Store.open(path, "s") as store:
            assert len(store.records()) == 2
            assert path.read_bytes() == whole + rubbish
            store.set_attr("note", 1)
        (line,) = path.read_bytes().removeprefix(whole).splitlines()
        assert json.loads(line)["user_attr"] == {"note": 1}


def test_damage_before_the_end_is_named_and_left(tmp_path):
    path = tmp_path / "s.journal"
    lines = make(path, 4).splitlines(keepends=True)
    for line in (lines[2][:40] + lines[3], b"\n", b"{}\n", b"\xff\xfe\n"):
        damaged = b"".join([*lines[:2], line, *lines[4:]])
        path.write_bytes(damaged)
        for options in ({}, {"read_only": True}):
            with pytest.raises(StudyError, match=r"s\.journal is damaged: line 3 is not an op"):
                Store.open(path, "s", **options)
        assert path.read_bytes() == damaged


def test_operations_without_sense(tmp_path):
    path = tmp_path / "s.journal"
    for text in ('{"op_code":4}\n', '{"op_code":77}\n', '{"op_code":0,"directions":[9]}\n'):
        path.write_text(text)
        with pytest.raises(StudyError, match="damaged: Optuna cannot replay it"):
            Store.open(path, "s")
        assert path.read_text() == text


@pytest.mark.parametrize(
    "content",
    [b"hello", b"a,b\n1,2\n", b"{}\n", b'{"op": 1}', b"[1]\n", bytes(range(256)), b"\n", b" "],
)
def test_a_file_that_is_no_journal_is_left_alone(tmp_path, content):
    path = tmp_path / "notes.log"
    path.write_bytes(content)
    for options in ({}, {"create": False}, {"read_only": True}):
        with pytest.raises(StudyError, match=r"notes\.log is not the journal of a study"):
            Store.open(path, "s", **options)
    with pytest.raises(StudyError, match="is not the journal"):
        list_studies(path)
    assert path.read_bytes() == content


def test_other_files_are_not_storages(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("1,2\n")
    with pytest.raises(StudyError, match=r"data\.csv is a file but not named \*\.journal"):
        Store.open(path, "s")
    with pytest.raises(StudyError, match="begins with sqlite://"):
        Store.open("sqlite:studies.db", "s")
    with pytest.raises(StudyError, match="the storage is empty"):
        Store.open("", "s")


def optuna_storage(path: Path) -> JournalStorage:
    return JournalStorage(JournalFileBackend(str(path)))


def test_optuna_reads_our_journals(tmp_path):
    path = tmp_path / "s.journal"
    make(path, 10)
    study = optuna.load_study(study_name="s", storage=optuna_storage(path))
    assert [trial.number for trial in study.trials] == list(range(10))
    assert study.best_value == min(r.score for r in varied(10) if r.score is not None)


def test_optuna_may_write_between_our_records(tmp_path):
    path = tmp_path / "s.journal"
    with Store.open(path, "s") as store:
        store.add(sample(0))
        store.flush()
        # As a dashboard does for its notes.
        study = optuna.load_study(study_name="s", storage=optuna_storage(path))
        study.set_user_attr("note", "good")
        study.enqueue_trial({"lr": 0.1})
        store.add(sample(1))
        assert store.attrs["note"] == "good"
        assert store.records() == [sample(0), sample(1)]


def test_studies_of_others_are_not_written_to(tmp_path):
    path = tmp_path / "theirs.journal"
    study = optuna.create_study(study_name="theirs", storage=optuna_storage(path))
    study.add_trial(optuna.trial.create_trial(value=1.0))
    optuna.create_study(study_name="named", storage=optuna_storage(path)).set_user_attr("a", 1)
    before = path.read_bytes()
    for name in ("theirs", "named"):
        for options in ({}, {"read_only": True}):
            with pytest.raises(StudyError, match=f'study "{name}" was not made by Optsmith'):
                Store.open(path, name, **options)
    assert path.read_bytes() == before
    assert list_studies(path) == []


def test_a_directory_lists_its_journals(tmp_path):
    for name in ("b", "a.1"):
        Store.open(tmp_path, name).close()
    (tmp_path / "empty.journal").touch()
    (tmp_path / "text.journal").write_text("hello\n")
    (tmp_path / "folder.journal").mkdir()
    assert list_studies(tmp_path) == ["a.1", "b"]


def test_a_journal_that_vanished_is_not_begun_anew(tmp_path):
    path = tmp_path / "s.journal"
    store = Store.open(path, "s")
    path.unlink()
    store.add(sample(0))
    with pytest.raises(StudyError, match=r"s\.journal cannot be written: No such file"):
        store.flush()
    store.close()
    assert not path.exists()


WRITER = """
store = Store.open(sys.argv[1], "s")
print("ready", flush=True)
for i in range(len(store.records()), 100_000):
    store.add(sample(i))
    if i % 5 == 0:
        store.flush()
        print(i, flush=True)
"""


def test_killed_writers_lose_nothing_that_was_flushed(tmp_path):
    path = tmp_path / "s.journal"
    script = ONLY_THE_STORE + WRITER
    for round_ in range(2):
        writer = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"  # so the lock did not outlive the last one
        time.sleep(0.05 + 0.03 * round_)
        os.kill(writer.pid, signal.SIGKILL)
        flushed = [int(line) for line in writer.stdout.read().split(b"\n")[:-1]]
        writer.stdout.close()
        writer.wait()
        with Store.open(path, "s", create=False) as store:
            records = store.records()
        assert len(records) > max(flushed, default=-1)
        assert records == [sample(i) for i in range(len(records))]
    assert len(records) > 0


def test_a_process_that_ends_without_closing_writes_its_queue(tmp_path):
    path = tmp_path / "s.journal"
    script = ONLY_THE_STORE + WRITER.replace("100_000", "60").replace("store.flush()", "pass")
    subprocess.run(
        [sys.executable, "-c", script, path],
        check=True,
        capture_output=True,
    )
    with Store.open(path, "s", read_only=True) as store:
        assert len(store.records()) == 60


OLD_TRIAL = {
    "op_code": 4, "worker_id": "w", "study_id": 0, "datetime_start": "2026-11-18T02:51:00.000000",
    "datetime_complete": "2026-11-18T02:51:01.000000", "state": 1, "value": 0.5,
    "distributions": {}, "params": {}, "intermediate_values": {}, "system_attrs": {},
    "user_attrs": {"candidate": "0:1", "rule": "g", "length": 1, "evaluation": {"status": "ok"}},
}  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"read_only": True}, {"create": False}])
def test_a_study_of_the_first_schema_is_refused_and_says_what_to_do(tmp_path, options):
    """Such studies named their candidates by level and index, and did not say what was asked."""
    lines = [
        {"op_code": 0, "worker_id": "w", "study_name": "old", "directions": [1]},
        {"op_code": 2, "worker_id": "w", "study_id": 0, "user_attr": {"optsmith:schema": 1}},
        {"op_code": 2, "worker_id": "w", "study_id": 0, "user_attr": {"settings": {"levels": 4}}},
        OLD_TRIAL,
    ]
    path = tmp_path / "old.journal"
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    before = path.read_bytes()
    with pytest.raises(StudyError) as caught:
        Store.open(tmp_path, "old", **options)
    assert str(caught.value) == (
        'study "old" was made by an older Optsmith (schema 1, here 5): read it with the version'
        " that made it, or choose another --study"
    )
    assert path.read_bytes() == before
