"""`optsmith data`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from toy_data import CONTENT, toy, urls

from optsmith import data
from optsmith._errors import DataError
from optsmith.cli._data import data_command


@pytest.fixture
def toy_set(host):
    data.datasets.add("toy", toy(urls(host.base)))
    yield
    data.datasets.remove("toy")


def run(*arguments: str):
    return CliRunner().invoke(data_command, arguments)


def listed(*arguments: str) -> dict[str, dict[str, object]]:
    return {entry["name"]: entry for entry in json.loads(run("list", "--json", *arguments).stdout)}


def test_list_says_what_is_where(toy_set, cache):
    entries = listed()
    assert list(entries) == list(data.datasets)
    assert entries["toy"]["present"] is False
    assert entries["toy"]["bytes"] == sum(map(len, CONTENT.values()))
    assert entries["digits"]["from"] == "installed package scikit-learn"
    assert entries["mnist"]["licence"] == "CC BY-SA 3.0"
    text = run("list").stdout
    assert "`optsmith data fetch toy` downloads it" in text
    for dataset in data.datasets.values():
        assert dataset.title in text
        assert dataset.citation in text
    data.fetch("toy")
    assert listed()["toy"]["path"] == str(cache / "toy")
    assert f"{cache / 'toy'} (cache)" in run("list").stdout


def test_list_with_a_directory_that_is_incomplete_says_so(toy_set, tmp_path):
    (tmp_path / "a.bin").write_bytes(CONTENT["a.bin"])
    entry = listed("--data-dir", str(tmp_path))["toy"]
    assert entry["present"] is False
    assert "folder/b.txt is missing" in str(entry["problem"])
    assert "folder/b.txt is missing" in run("list", "--data-dir", str(tmp_path)).stdout


def test_fetch_prints_the_directory_and_nothing_else(toy_set, cache):
    result = run("fetch", "toy")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{cache / 'toy'}\n", "")
    expected = {"name": "toy", "path": str(cache / "toy")}
    assert json.loads(run("fetch", "toy", "--json").stdout) == expected


def test_fetch_looks_in_the_directory_given(toy_set, tmp_path, host):
    (tmp_path / "folder").mkdir()
    for name, content in CONTENT.items():
        (tmp_path / name).write_bytes(content)
    assert run("fetch", "toy", "--data-dir", str(tmp_path)).stdout == f"{tmp_path}\n"
    assert not host.asked


def test_where(toy_set, cache):
    result = run("where", "toy")
    assert isinstance(result.exception, DataError)
    assert (
        str(result.exception)
        == "toy is not on this machine; `optsmith data fetch toy` downloads it"
    )
    assert json.loads(run("where", "toy", "--json").stdout) == {"name": "toy", "path": None}
    data.fetch("toy")
    assert run("where", "toy").stdout == f"{cache / 'toy'}\n"


def test_listing_imports_nothing_heavy():
    code = (
        "import sys; from optsmith.cli._data import data_command\n"
        "data_command(['list'], standalone_mode=False)\n"
        "heavy = {'numpy', 'torch', 'rich', 'sklearn', 'filelock', 'ssl'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "mnist" in result.stdout
