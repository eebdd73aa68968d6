"""What happens to workers with the program that started them; each test runs a script."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from optsmith.execution._shelf import Shelf


def gone(pid):
    """Wait until a process is no more; a zombie that its new parent has not buried is none."""
    for _ in range(1000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def start(tmp_path):
    """Start a script in a process group and a temporary directory of its own."""
    scripts = tmp_path / "scripts"
    (tmp_path / "tmp").mkdir()
    scripts.mkdir()
    processes = []

    def start(source, **modules):
        for name, text in {"script": source, **modules}.items():
            (scripts / f"{name}.py").write_text(text)
        process = subprocess.Popen(
            [sys.executable, str(scripts / "script.py")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
            start_new_session=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def shelves(tmp_path):
    return list((tmp_path / "tmp").glob("optsmith-*"))


def output(process):
    out, err = process.communicate(timeout=120)
    assert err == ""
    assert process.returncode == 0
    return out.splitlines()


NO_GUARD = """
import torch
import helpers
from optsmith.execution import Processes

torch.set_default_dtype(torch.float64)
torch.set_float32_matmul_precision("high")
print("body")
OFFSET = 100

class Answer:
    def __init__(self, value):
        self.value = value

def job(context, number):
    settings = (torch.tensor(0.5).dtype, torch.get_float32_matmul_precision())
    return Answer((helpers.double(number) + context.base + OFFSET, settings))

class Context:
    def __init__(self):
        self.base = 1000
        self.data = torch.ones(100_000)

pool = Processes(workers=2)
pool.start(job, Context())
for i in range(4):
    pool.submit(i, i)
results = {}
while len(results) < 4:
    results.update(pool.wait())
for i in range(4):
    assert isinstance(results[i], Answer)
    print(*results[i].value)
# No close: leaving must be enough.
"""


def test_a_script_without_main_guard_works_and_leaves_nothing(start, tmp_path):
    lines = output(start(NO_GUARD, helpers="def double(x):\n    return 2 * x\n"))
    assert lines == ["body"] + [f"{1100 + 2 * i} (torch.float64, 'high')" for i in range(4)]
    assert shelves(tmp_path) == []


def long_jobs(workers, seconds, limit=None):
    settings = {"WORKERS": workers, "SECONDS": seconds, "LIMIT": limit}
    return "".join(f"{name} = {value}\n" for name, value in settings.items()) + LONG_JOBS


LONG_JOBS = """
import os, time, torch
from optsmith.execution import Processes

def job(context, seconds):
    open(f"started-{os.getpid()}", "w").close()
    for _ in range(10):
        time.sleep(seconds / 10)
    return "done"

pool = Processes(workers=WORKERS, time_limit=LIMIT)
pool.start(job, torch.ones(100_000))
for i in range(WORKERS):
    pool.submit(i, SECONDS)
"""


def workers_at_work(process, tmp_path, count):
    for _ in range(3000):
        pids = [int(path.name.partition("-")[2]) for path in tmp_path.glob("started-*")]
        if len(pids) == count:
            return pids
        assert process.poll() is None
        time.sleep(0.02)
    raise AssertionError("the workers never started")


def test_workers_die_with_a_killed_coordinator(start, tmp_path, monkeypatch):
    process = start(long_jobs(2, 600.0) + "pool.wait()\n")
    pids = workers_at_work(process, tmp_path, 2)
    [shelf] = shelves(tmp_path)
    process.kill()
    process.wait()
    assert all(gone(pid) for pid in pids)
    # What it could not remove, the next one does.
    assert shelf.exists()
    monkeypatch.setattr(tempfile, "tempdir", str(shelf.parent))
    mine = Shelf()
    mine.write(memoryview(b"data"))
    assert not shelf.exists()
    mine.remove()
    assert shelves(tmp_path) == []


def test_workers_are_spared_by_an_interrupt_that_the_coordinator_survives(start, tmp_path):
    script = (
        long_jobs(1, 2.0)
        + """
results = []
while not results:
    try:
        print("waiting", flush=True)
        results += pool.wait()
    except KeyboardInterrupt:
        print("interrupted")
print(results)
pool.close()
"""
    )
    process = start(script)
    assert process.stdout.readline() == "waiting\n"
    os.killpg(process.pid, signal.SIGINT)  # the worker is just starting
    workers_at_work(process, tmp_path, 1)
    os.killpg(process.pid, signal.SIGINT)
    lines = output(process)
    assert lines == ["interrupted", "waiting"] * 2 + ["[(0, 'done')]"]
    assert shelves(tmp_path) == []


@pytest.mark.slow
def test_time_in_which_all_are_stopped_is_not_the_jobs(start, tmp_path):
    process = start(long_jobs(1, 2.0, limit=6.0) + "print(pool.wait())\n")
    workers_at_work(process, tmp_path, 1)
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(10)
    os.killpg(process.pid, signal.SIGCONT)
    assert output(process) == ["[(0, 'done')]"]
