"""The cache directory: one answer for datasets, locks and trained models."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from optsmith import data
from optsmith._directories import cache_dir
from optsmith._errors import OptsmithError
from optsmith.storage._lock import shared_lock_path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory, and a directory for temporary files, of the test's own."""
    for name in ("OPTSMITH_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "temporary"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def places() -> set[Path]:
    """Return the cache directory as its users see it."""
    return {cache_dir(), data.cache_dir(), shared_lock_path("a table").parent.parent}


def deny(monkeypatch: pytest.MonkeyPatch, *denied: Path) -> None:
    """Let nothing be written in these directories, also when root runs the tests."""
    allowed = os.access

    def access(path: Path, mode: int) -> bool:
        return Path(path) not in denied and allowed(path, mode)

    monkeypatch.setattr("os.access", access)


def test_the_users_own_choice_wins_everywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("OPTSMITH_CACHE", str(tmp_path / "own"))
    assert places() == {tmp_path / "own"}
    monkeypatch.setenv("OPTSMITH_CACHE", "~/own")
    assert places() == {tmp_path / "home" / "own"}


def test_a_choice_that_cannot_be_written_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPTSMITH_CACHE", str(tmp_path / "file"))
    assert places() == {tmp_path / "file"}


@pytest.mark.skipif(not Path("/proc").exists(), reason="the directory differs between systems")
def test_the_directory_on_linux(home, tmp_path, monkeypatch):
    assert places() == {home / ".cache" / "optsmith"}
    assert not home.exists(), "looking makes nothing"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the specification
    assert places() == {home / ".cache" / "optsmith"}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert places() == {tmp_path / "xdg" / "optsmith"}


@pytest.mark.parametrize("blocked", ["home", "home/.cache", "home/.cache/optsmith"])
def test_an_unwritable_home_is_replaced_by_a_private_directory(tmp_path, monkeypatch, blocked):
    (tmp_path / blocked).mkdir(parents=True)
    deny(monkeypatch, tmp_path / blocked)
    (found,) = places()
    assert found.parent == tmp_path / "temporary"
    assert found.stat().st_mode & 0o777 == 0o700


def test_a_file_in_the_way(home, tmp_path):
    home.mkdir()
    (home / ".cache").touch()
    (found,) = places()
    assert found.parent == tmp_path / "temporary"


def test_no_home(tmp_path, monkeypatch):
    def nobody(*_: object, **__: object) -> Path:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.setattr("platformdirs.user_cache_path", nobody)
    (found,) = places()
    assert found.parent == tmp_path / "temporary"


def test_a_read_only_cache_is_used_for_what_it_has(home, tmp_path, monkeypatch):
    usual = home / ".cache" / "optsmith"
    (usual / "mnist").mkdir(parents=True)
    deny(monkeypatch, usual)
    assert cache_dir("mnist") == usual
    assert cache_dir("cifar10").parent == cache_dir().parent == tmp_path / "temporary"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="users have no numbers here")
def test_a_temporary_directory_of_another_user_is_refused(home, tmp_path, monkeypatch):
    home.mkdir()
    deny(monkeypatch, home)
    (tmp_path / "elsewhere").mkdir()
    planted = tmp_path / "temporary" / f"optsmith-{os.getuid()}"
    planted.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OptsmithError, match=r"belongs to another user; set OPTSMITH_CACHE"):
        cache_dir()
    planted.unlink()
    planted.touch()
    with pytest.raises(OptsmithError, match="cannot be created: File exists; set"):
        cache_dir()
