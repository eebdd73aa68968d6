"""A search whose whole process group is killed, again and again, ends as an undisturbed one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optsmith import Study
from optsmith.study import Store

TESTS = Path(__file__).parents[1]
SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import optsmith
from tasks_for_tests import PROTOCOL, line
optsmith.search(
    line(), storage=sys.argv[1], study="killed", budget=24, algorithm={algorithm!r}, workers=2,
    proposals=3, baselines=[], protocol=PROTOCOL.replace(steps=60, final_steps=60),
)
"""


def start(directory: Path, algorithm: str = "mct") -> subprocess.Popen[bytes]:
    # No main guard in the script: workers must not import it.
    script = directory.parent / "search.py"
    script.write_text(SCRIPT.format(tests=os.fspath(TESTS), algorithm=algorithm))
    return subprocess.Popen(
        [sys.executable, os.fspath(script), os.fspath(directory)],
        start_new_session=True,
        stderr=subprocess.PIPE,
    )


def finish(directory: Path, algorithm: str = "mct") -> Study:
    process = start(directory, algorithm)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()
    return Study.load("killed", directory)


def facts(study: Study) -> list[object]:
    records = [(r.candidate, r.rule, r.score, r.lr, r.data["scores"]) for r in study.records]
    finals = [(e.recipe, e.score, e.lr) for e in study.final.rows]
    return [records, study.best().recipe, study.summary["searcher"]["decisions"], finals]


def trials(directory: Path) -> list[tuple[str, str]]:
    """Every trial in the storage, as Optuna sees it."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    backend = JournalFileBackend(os.fspath(directory / "killed.journal"))
    storage = optuna.storages.JournalStorage(backend)
    study = optuna.load_study(study_name="killed", storage=storage)
    return [(t.user_attrs["candidate"], t.user_attrs["rule"]) for t in study.get_trials()]


def kill_and_resume(tmp_path: Path, kills: int, seed: int, algorithm: str = "mct") -> None:
    undisturbed = facts(finish(tmp_path / "whole", algorithm))
    rng = random.Random(seed)
    disturbed = tmp_path / "killed"
    before: list[tuple[str, str]] = []
    for _ in range(kills):
        process = start(disturbed, algorithm)
        # Sometimes while starting, mostly in the middle; it may also be done by then.
        until = time.monotonic() + rng.uniform(0.5, 8.0)
        while process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if (disturbed / "killed.journal").exists():
            now = recorded(disturbed)
            assert now[: len(before)] == before, "a recorded evaluation was lost"
            before = now
    assert facts(finish(disturbed, algorithm)) == undisturbed
    found = trials(disturbed)
    assert len(found) == len(set(found)), "an evaluation was repeated"
    assert sorted(found) == sorted(trials(tmp_path / "whole"))


def recorded(directory: Path) -> list[tuple[str, str]]:
    """The records in the journal in the order of writing, read as plainly as can be."""
    import json

    found = []
    for line in (directory / "killed.journal").read_bytes().split(b"\n")[:-1]:
        entry = json.loads(line)
        attributes = entry.get("user_attrs") or {}
        if "candidate" in attributes:
            found.append((attributes["candidate"], attributes["rule"]))
    return found


@pytest.mark.parametrize("algorithm", ["mct", pytest.param("uct", marks=pytest.mark.slow)])
def test_a_few_kills_change_nothing(tmp_path, algorithm):
    kill_and_resume(tmp_path, kills=3, seed=0, algorithm=algorithm)


@pytest.mark.slow
def test_fifty_kills_change_nothing(tmp_path):
    kill_and_resume(tmp_path, kills=50, seed=1)


def test_a_second_process_on_the_same_study_is_refused(tmp_path):
    directory = tmp_path / "shared"
    with Store.open(directory, "killed", direction="minimize"):
        second = start(directory)
        _, errors = second.communicate(timeout=120)
    assert second.returncode == 1
    assert f"is being written by process {os.getpid()}".encode() in errors
    assert not recorded(directory)
    assert finish(directory).finished
