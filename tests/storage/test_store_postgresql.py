"""A study on a PostgreSQL server, which the tests start for themselves."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from store_samples import large_data, sample, varied

from optsmith._errors import StudyError
from optsmith.storage._mark import SCHEMA
from optsmith.storage._store import Store, list_studies

PHRASE = "ti/ger @lily"
QUOTED = "ti%2Fger%20%40lily"


class Server:
    """A server on a socket in a directory of its own; it refuses to run as root."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self.url = f"postgresql://ann:{QUOTED}@/postgres?host={directory}"
        self.password = directory / "password"
        self.password.write_text(PHRASE)
        if os.geteuid() == 0:
            for path in (directory, self.password):
                shutil.chown(path, self.user)
        self._run(
            "initdb",
            *("--username", "ann", "--pwfile", str(self.password)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )
        self.start()

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self.directory} -c fsync=off"
        self._run("pg_ctl", "start", "-w", "-o", options, "-l", str(self.directory / "log"))

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "-w", "-m", "immediate")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(shutil.which(program)), *arguments, "-D", str(self.directory / "data")],
            check=True,
            stdout=subprocess.DEVNULL,  # a pipe would be held open by the server
            user=self.user if os.geteuid() == 0 else None,
            cwd=self.directory,
        )


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("psycopg2", reason="psycopg2 is not installed")
    for program in ("initdb", "pg_ctl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on this machine")
    # Short, because the path of a socket is; and not below pytest's, which is the user's own.
    directory = Path(tempfile.mkdtemp(prefix="optsmith-pg-"))
    server = None
    try:
        server = Server(directory)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(directory)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def tables(server: Server) -> list[str]:
    url = server.url.replace("postgresql://", "postgresql+psycopg2://")
    engine = sqlalchemy.create_engine(url)
    try:
        return sqlalchemy.inspect(engine).get_table_names()
    finally:
        engine.dispose()


def test_an_empty_database_stays_empty(server):
    assert tables(server) == []
    for options in ({"read_only": True}, {"create": False}):
        with pytest.raises(StudyError, match=r'there is no study "s" in postgresql://ann:\*\*\*@'):
            Store.open(server.url, "s", **options)
    assert list_studies(server.url) == []
    assert tables(server) == []


def test_records_and_attributes(server):
    records = varied(12)
    with Store.open(server.url, "round", direction="maximize") as store:
        for record in reversed(records):
            store.add(record)
        store.add(sample(7, level=9, data=large_data()))
        store.set_attr("settings", {"seed": 1})
    with Store.open(server.url.replace("postgresql", "postgres"), "round", read_only=True) as store:
        assert store.records()[:-1] == records[::-1]
        assert store.records()[-1].data == large_data()
        assert store.attrs == {"optsmith:schema": SCHEMA, "settings": {"seed": 1}}
        assert store.direction == "maximize"
        assert QUOTED not in repr(store) + store.location
    assert "round" in list_studies(server.url)


def test_one_writer_on_a_machine(server):
    with (
        Store.open(server.url, "mine"),
        pytest.raises(StudyError, match=f"is being written by process {os.getpid()}:"),
    ):
        Store.open(server.url, "mine")


def test_writers_on_two_machines_do_not_repeat_records(server, tmp_path, monkeypatch):
    here = Store.open(server.url, "both")
    monkeypatch.setenv("OPTSMITH_CACHE", str(tmp_path / "other"))  # no lock in common
    there = Store.open(server.url, "both")
    with here, there:
        for i in range(4):
            here.add(sample(i))
            there.add(sample(i))
        there.flush()
        assert here.records() == [sample(i) for i in range(4)]
        assert there.records() == here.records()


def test_a_wrong_password_is_not_repeated(server):
    url = server.url.replace(QUOTED, "swordfish")
    for call in (lambda: Store.open(url, "s"), lambda: list_studies(url)):
        with pytest.raises(StudyError, match="password authentication failed") as caught:
            call()
        assert "swordfish" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_restart_between_records_goes_unnoticed(server):
    with Store.open(server.url, "restart") as store:
        store.add(sample(0))
        store.flush()
        server.stop()
        server.start()
        store.add(sample(1))
        assert store.records() == [sample(0), sample(1)]


def test_a_server_that_is_gone(server, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # Optuna's, before it tries again
    with Store.open(server.url, "gone") as store:
        store.add(sample(0))
        store.flush()
        server.stop()
        try:
            store.add(sample(1))
            with pytest.raises(
                StudyError, match=r"cannot be written: .*; earlier records"
            ) as caught:
                store.flush()
            with pytest.raises(StudyError, match="cannot be used: "):
                store.records()
        finally:
            server.start()
    for secret in (PHRASE, QUOTED, "INSERT", "\n"):
        assert secret not in str(caught.value)
    with Store.open(server.url, "gone", create=False) as store:
        assert store.records() == [sample(0)]
