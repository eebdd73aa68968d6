"""Storage URLs: what is understood, and passwords that nobody sees."""

from __future__ import annotations

import builtins
import sys
import traceback
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from optsmith._errors import StudyError
from optsmith.storage._place import reason
from optsmith.storage._store import Store, list_studies, mask

MASKED = [
    ("postgresql://ann:tiger@host/db", "postgresql://ann:***@host/db"),
    ("postgresql+psycopg2://ann:t%40g@host:5432/db", "postgresql+psycopg2://ann:***@host:5432/db"),
    ("postgresql://ann:ti@ger@host/db", "postgresql://ann:***@host/db"),
    ("postgresql://ann:ti:g/e?r@host/db", "postgresql://ann:***@host/db"),
    ("redis://:tiger@host", "redis://:***@host"),
    ("postgresql://ann:@host/db", "postgresql://ann:***@host/db"),
    ("postgresql://ann@host/db", "postgresql://ann@host/db"),
    ("postgresql:///db?user=ann&password=tiger", "postgresql:///db?user=ann&password=***"),
    ("postgresql:///db?sslPassword=tiger&a=b", "postgresql:///db?sslPassword=***&a=b"),
    ("mysql://ann@h/db?passwd=tiger&auth_token=x", "mysql://ann@h/db?passwd=***&auth_token=***"),
    ("sqlite:////tmp/a:b@c/study.db", "sqlite:////tmp/a:b@c/study.db"),
    ("sqlite:///study.db", "sqlite:///study.db"),
    (
        "cannot reach postgresql://ann:tiger@host/db now",
        "cannot reach postgresql://ann:***@host/db now",
    ),
]


@pytest.mark.parametrize(("url", "expected"), MASKED)
def test_mask(url, expected):
    assert mask(url) == expected
    assert mask(mask(url)) == expected


def error_of(call: Any, *arguments: Any) -> str:
    """Return all that a person could see of an error: the whole traceback."""
    with pytest.raises(StudyError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    lines = traceback.format_exception(caught.value)
    # Without the lines of source, which are this test's own.
    return "".join(line for line in lines if not line.lstrip().startswith("File"))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://ann:tiger@127.0.0.1:1/db", "Connection refused"),
        ("postgres://ann:tiger@127.0.0.1:1/db", "Connection refused"),
        ("postgresql://ann@127.0.0.1:1/db?password=tiger", "Connection refused"),
        ("postgresql://ann:ti@tiger@127.0.0.1:1/db", "has two @"),
        ("postgresql://ann:x@host:tiger/db", "is not a storage URL"),
        ("nosuch://ann:tiger@host/db", "nosuch:// is not known"),
        ("redis://:tiger@host", "Redis cannot store a study"),
        ("://ann:tiger@host", "is not a storage URL"),
        ("mysql+nosuch://ann:tiger@host/db", "is not known"),
    ],
)
def test_errors_do_not_tell_passwords(url, words):
    for call in (lambda: Store.open(url, "s"), lambda: list_studies(url)):
        text = error_of(call)
        assert words in text
        if "host:tiger" not in url:  # there it is the port
            assert "tiger" not in text


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file::memory:?uri=true"]
)
def test_memory_is_no_place_for_a_study(url):
    with pytest.raises(StudyError, match="SQLite in memory stores nothing"):
        Store.open(url, "s")


def test_a_driver_that_is_missing(monkeypatch):
    for name in ("psycopg2", "psycopg"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    imported = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] in ("psycopg2", "MySQLdb", "pymysql"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return imported(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    for scheme in ("postgresql", "postgres", "postgresql+psycopg2"):
        url = f"{scheme}://ann:tiger@host/db"
        for options in ({}, {"read_only": True}):
            with pytest.raises(StudyError, match=r"pip install 'optsmith\[postgresql\]'$"):
                Store.open(url, "s", **options)
        with pytest.raises(StudyError, match="not installed"):
            list_studies(url)
    with pytest.raises(StudyError, match="driver for mysql is not installed: pip install pymysql"):
        Store.open("mysql://ann:tiger@host/db", "s")


def test_reasons_are_one_line_without_statement_parameters_or_password():
    url = "postgresql://ann:ti%2Fger@host/db"
    error = OperationalError(
        "INSERT INTO t VALUES (?)",
        {"secret": "tiger"},
        Exception('password "ti/ger" of ann is wrong (ti%2Fger)\nmore lines'),
    )
    assert reason(error, url) == 'password "***" of ann is wrong (***)'
    assert reason(Exception("cannot reach a host"), "x://u:a@h") == "cannot reach *** host"
    assert reason(Exception(), url) == "Exception"


def test_locations_of_databases(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    url = f"sqlite:///{tmp_path}/a b?.db".replace("?", "%")
    with Store.open(url, "s") as store:
        assert store.location == url
        with Store.open(url, "s", read_only=True) as reader:
            assert reader.attrs == store.attrs
    assert (tmp_path / "a b%.db").is_file()


def test_a_place_does_not_show_its_password():
    from optsmith.storage._database import DatabasePlace

    assert repr(DatabasePlace("postgresql://ann:tiger@h/d")).count("***") == 1
