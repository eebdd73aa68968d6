"""Fixtures of the data tests: a separate cache per test, and a server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from toy_data import Host

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPTSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPTSMITH_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


@pytest.fixture
def shared() -> Path:
    if not (SHARED / "mnist").is_dir():
        pytest.skip(f"the real files are not at {SHARED}")
    return SHARED
