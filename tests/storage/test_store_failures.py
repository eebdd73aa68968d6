"""Full disks and places that cannot be written: one sentence, and the study stays intact."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from store_samples import sample

from optsmith._errors import StudyError
from optsmith.storage._mark import SCHEMA
from optsmith.storage._store import Store, list_studies

resource = pytest.importorskip("resource", reason="file size limits are a thing of Unix")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size; the error is EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A study of three records."""
    path = tmp_path / "s.journal"
    with Store.open(path, "s") as store:
        for i in range(3):
            store.add(sample(i))
    return path


@pytest.mark.parametrize("room", [0, 1, 200])
def test_a_line_that_does_not_fit_is_taken_back(journal, room):
    before = journal.read_bytes()
    store = Store.open(journal, "s")
    with largest_file(len(before) + room):
        store.add(sample(3))
        with pytest.raises(StudyError) as caught:
            store.flush()
    assert str(caught.value) == (
        f'study "s" in {journal} cannot be written: File too large; earlier records are intact'
    )
    # There is room again, but a record is missing: nothing may follow it.
    for call in (store.flush, lambda: store.add(sample(5)), lambda: store.set_attr("a", 1)):
        with pytest.raises(StudyError, match="cannot be written: File too large"):
            call()
    assert journal.read_bytes() == before
    assert store.records() == [sample(i) for i in range(3)]
    store.close()  # says nothing new
    with Store.open(journal, "s", create=False) as again:
        again.add(sample(3))
        assert len(again.records()) == 4


def test_close_says_what_nobody_has_heard(journal):
    store = Store.open(journal, "s")
    with largest_file(journal.stat().st_size):
        store.add(sample(3))
        with pytest.raises(StudyError, match="File too large"):
            store.close()
    Store.open(journal, "s").close()


def test_an_error_in_the_block_comes_first(journal):
    def interrupted() -> None:
        with Store.open(journal, "s") as store:
            store.add(sample(3))
            raise KeyboardInterrupt

    with largest_file(journal.stat().st_size), pytest.raises(KeyboardInterrupt) as caught:
        interrupted()
    assert "File too large" in caught.value.__notes__[0]


def test_attributes_that_do_not_fit(journal):
    before = journal.read_bytes()
    with Store.open(journal, "s") as store:
        with largest_file(len(before)), pytest.raises(StudyError, match=r"used: File too large$"):
            store.set_attr("a", "x" * 100)
        assert journal.read_bytes() == before
        store.set_attr("a", "y")
        assert store.attrs["a"] == "y"


def test_unexpected_errors_are_not_swallowed(journal, monkeypatch):
    store = Store.open(journal, "s")
    monkeypatch.setattr(store._study, "add_trial", lambda trial: 1 / 0)
    store.add(sample(3))
    with pytest.raises(ZeroDivisionError):
        store.flush()
    store.close()


def test_places_that_cannot_be(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for storage in (file / "below", file / "below" / "s.journal", "/proc", "/proc/below"):
        with pytest.raises(StudyError, match=r'study "s" in .* cannot be opened: \w+') as caught:
            Store.open(storage, "s")
        assert "\n" not in str(caught.value)
    for url in (f"sqlite:///{file}/below/s.db", f"sqlite:///{tmp_path}/missing/s.db"):
        with pytest.raises(StudyError, match="cannot be opened: unable to open database file"):
            Store.open(url, "s")
    assert list_studies(file / "below") == []


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "s.db"
    path.write_bytes(b"hello " * 1000)
    for call in (
        lambda url: Store.open(url, "s"),
        lambda url: Store.open(url, "s", read_only=True),
        list_studies,
    ):
        with pytest.raises(StudyError, match="file is not a database"):
            call(f"sqlite:///{path}")
    assert path.read_bytes() == b"hello " * 1000


def test_a_database_without_studies_stays_so(tmp_path):
    path = tmp_path / "s.db"
    path.touch()
    for options in ({"read_only": True}, {"create": False}):
        with pytest.raises(StudyError, match="there is none"):
            Store.open(f"sqlite:///{path}", "s", **options)
    assert list_studies(f"sqlite:///{path}") == []
    assert path.read_bytes() == b""


KILLED_WRITER = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")  # so that it writes to the file before the end
connection.execute("BEGIN")
connection.execute("UPDATE trial_user_attributes SET value_json = '1'")
connection.execute("UPDATE study_user_attributes SET value_json = hex(randomblob(100000))")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_reading_after_a_kill_within_a_transaction(tmp_path):
    url, path = f"sqlite:///{tmp_path}/s.db", tmp_path / "s.db"
    with Store.open(url, "s") as store:
        store.add(sample(0))
    before = path.read_bytes()
    subprocess.run([sys.executable, "-c", KILLED_WRITER, path], check=False)
    assert path.read_bytes() != before
    assert (tmp_path / "s.db-journal").exists()
    with Store.open(url, "s", read_only=True) as reader:
        assert reader.records() == [sample(0)]
        assert reader.attrs == {"optsmith:schema": SCHEMA}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_a_directory_without_permission(tmp_path):
    Store.open(f"sqlite:///{tmp_path}/s.db", "s").close()
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StudyError, match="cannot be opened: Permission denied"):
            Store.open(tmp_path, "new")
        with pytest.raises(StudyError, match="cannot be opened: the file or its directory is read"):
            Store.open(f"sqlite:///{tmp_path}/s.db", "s")
    finally:
        tmp_path.chmod(0o700)


Mount = Callable[[str], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mount a file system in memory; its options can be changed later."""
    program = shutil.which("mount")
    if program is None or os.geteuid() != 0:
        pytest.skip("only root can mount")
    place = tmp_path / "mounted"
    place.mkdir()

    def run(*arguments: str) -> None:
        done = subprocess.run([program, *arguments, str(place)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"cannot mount here: {done.stderr.strip()}")

    def change(options: str) -> Path:
        if place.is_mount():
            run("-o", f"remount,{options}")
        else:
            run("-t", "tmpfs", "-o", options, "tmpfs")
        return place

    yield change
    if place.is_mount():
        subprocess.run([shutil.which("umount") or "umount", str(place)], check=True)


def fill(store: Store) -> None:
    for i in range(1000):
        store.add(sample(i, data={"text": "x" * 10_000}))
        store.flush()


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_a_full_disk(mount, kind, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # Optuna's, before it tries again
    place = mount("size=400k")
    storage = place / "s.journal" if kind == "journal" else f"sqlite:///{place}/s.db"
    store = Store.open(storage, "s")
    with pytest.raises(StudyError) as caught:
        fill(store)
    written = len(store.records())
    store.close()
    why = {"journal": "No space left on device", "sqlite": "database or disk is full"}[kind]
    assert f"cannot be written: {why}; earlier records are intact" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert 5 < written < 50
    with Store.open(storage, "s", read_only=True) as reader:
        assert [r.candidate for r in reader.records()] == [f"0:{i}" for i in range(written)]
    mount("size=800k")
    with Store.open(storage, "s", create=False) as again:
        again.add(sample(written))
        assert len(again.records()) == written + 1


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_a_read_only_file_system(mount, kind):
    place = mount("size=1m")
    storage = place / "s.journal" if kind == "journal" else f"sqlite:///{place}/s.db"
    with Store.open(storage, "s") as store:
        store.add(sample(0))
    mount("ro")
    for name in ("s", "new"):
        with pytest.raises(StudyError, match=r"cannot be opened: .*[rR]ead-only"):
            Store.open(storage, name)
    with Store.open(storage, "s", read_only=True) as reader:
        assert reader.records() == [sample(0)]
    assert list_studies(storage) == ["s"]
