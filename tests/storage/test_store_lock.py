"""One process writes a study at a time, and the lock ends with the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest
from store_samples import ONLY_THE_STORE, sample

from optsmith._errors import StudyError
from optsmith.storage._store import Store

HOLDER = """
import os, time
stores = [Store.open(storage, "s") for storage in sys.argv[2:]]
if sys.argv[1] == "fork" and os.fork() == 0:
    time.sleep(60)
    os._exit(0)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(params=["s.journal", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/s.db"
    return str(tmp_path / request.param)


def test_a_second_process_is_told_who_writes_until_that_one_dies(tmp_path):
    storages = [str(tmp_path / "s.journal"), f"sqlite:///{tmp_path}/s.db"]
    # Before 4.0, forked children share the lock.
    fork = hasattr(os, "fork") and int(version("filelock").partition(".")[0]) >= 4
    holder = subprocess.Popen(
        [sys.executable, "-c", ONLY_THE_STORE + HOLDER, "fork" if fork else "alone", *storages],
        stdout=subprocess.PIPE,
        start_new_session=True,  # a group of its own, so that the test can end its child
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"ready\n"
        for storage in 2 * storages:
            with pytest.raises(StudyError) as caught:
                Store.open(storage, "s")
            assert str(caught.value) == (
                f'study "s" is being written by process {holder.pid}:'
                " wait for it or choose another --study"
            )
            with Store.open(storage, "s", read_only=True) as reader:
                assert reader.records() == []
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        # Its child, if any, sleeps on as one of a data loader would: it must not keep the lock.
        for storage in storages:
            with Store.open(storage, "s", create=False) as store:
                store.add(sample(0))
                assert store.records() == [sample(0)]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()


def test_the_same_process_cannot_write_twice(storage):
    with Store.open(storage, "s"):
        with pytest.raises(StudyError, match=f"written by process {os.getpid()}:"):
            Store.open(storage, "s")
        with pytest.raises(StudyError, match=f"written by process {os.getpid()}:"):
            Store.open(storage, "s")
    Store.open(storage, "s").close()


def test_a_failed_open_leaves_no_lock(storage):
    Store.open(storage, "s", direction="maximize").close()
    with pytest.raises(StudyError, match="maximize"):
        Store.open(storage, "s", direction="minimize")
    Store.open(storage, "s").close()


def test_other_names_of_the_same_file_are_the_same_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with Store.open("real", "s"), pytest.raises(StudyError, match="is being written"):
        Store.open(tmp_path / "link" / "s.journal", "s")
    with (
        Store.open("sqlite:///real/s.db", "s"),
        pytest.raises(StudyError, match="is being written"),
    ):
        Store.open(f"sqlite:///{tmp_path}/link/s.db", "s")


def test_a_writer_elsewhere_is_named_with_its_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "far-away")
    store = Store.open(tmp_path, "s")
    monkeypatch.undo()
    with store, pytest.raises(StudyError, match=f"by process {os.getpid()} on far-away:"):
        Store.open(tmp_path, "s")
    store.close()


def test_without_a_cache_directory_the_temporary_one_serves(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.delenv("OPTSMITH_CACHE", raising=False)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "temporary"))
    url = f"sqlite:///{tmp_path}/s.db"
    with Store.open(url, "s"), pytest.raises(StudyError, match="is being written"):
        Store.open(url, "s")
    assert len(list((tmp_path / "temporary").rglob("*.lock"))) == 1
