"""The searcher of CONTRIBUTING.md runs as written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def blocks() -> tuple[str, str]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition("## Add a searcher\n")[2].partition("\n## ")[0]
    searcher, check = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return searcher, check


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=folder, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_short_enough_to_read(blocks):
    lines = [line for line in blocks[0].splitlines() if line.strip()]
    assert len(lines) <= 30


def test_it_keeps_the_contract(tmp_path, blocks):
    (tmp_path / "check.py").write_text("\n".join(blocks))
    run(tmp_path, "check.py")


def test_it_runs_from_the_command_to_the_report(tmp_path, blocks):
    (tmp_path / "mine.py").write_text(blocks[0])
    command = "-m optsmith search digits --preset smoke --algorithm mine.py:Mine --option wave=4"
    options = "--workers 0 --json --no-baselines"
    result = json.loads(run(tmp_path, *f"{command} {options}".split()))
    counts, settings = result["counts"], result["settings"]
    assert (settings["algorithm"], settings["options"]) == ("mine.py:Mine", {"wave": 4})
    assert settings["budget"] == 8
    kinds = ("accepted", "rejected", "early_stopped", "diverged", "failed", "timed_out")
    assert sum(counts[kind] for kind in kinds) == 8
    assert result["best"]["rule"]
    name = "digits-smoke-Mine-0"
    page = (tmp_path / "optsmith-studies" / f"{name}.html").read_text()
    assert "mine.py:Mine" in page
    assert name in run(tmp_path, "-m", "optsmith", "report", name)
    again = json.loads(run(tmp_path, *f"{command} {options}".split()))
    assert again["top"] == result["top"]
