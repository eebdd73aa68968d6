"""Workers and the process that started them; each test runs a script."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from optsmith.execution._shared_files import SharedFiles


def gone(pid):
    """Wait until a process has ended, and return whether it did; zombies count as ended."""
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
    """Start a script in a new process group with a separate temporary directory."""
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


def leftovers(tmp_path):
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

pool = Processes(workers=1)
pool.start(job, Context())
for i in range(4):
    pool.submit(i, i)
results = {}
while len(results) < 4:
    results.update(pool.wait())
for i in range(4):
    assert isinstance(results[i], Answer)
    print(*results[i].value)
# No close: exiting must suffice.
"""


def test_a_script_without_main_guard_works_and_leaves_nothing(start, tmp_path):
    lines = output(start(NO_GUARD, helpers="def double(x):\n    return 2 * x\n"))
    assert lines == ["body"] + [f"{1100 + 2 * i} (torch.float64, 'high')" for i in range(4)]
    assert leftovers(tmp_path) == []


LONG_JOB = """
import os, time, torch
from optsmith.execution import Processes

def job(context, _):
    open(f"started-{os.getpid()}", "w").close()
    while not os.path.exists("finish"):
        time.sleep(0.02)
    return "done"

pool = Processes(workers=1)
pool.start(job, torch.ones(100_000))
pool.submit(0, None)
"""


def busy_worker(process, tmp_path):
    """Wait until the worker runs its job, and return its process id."""
    for _ in range(3000):
        if started := list(tmp_path.glob("started-*")):
            return int(started[0].name.partition("-")[2])
        assert process.poll() is None
        time.sleep(0.02)
    raise AssertionError("the worker never started")


def test_workers_die_with_a_killed_coordinator(start, tmp_path, monkeypatch):
    process = start(LONG_JOB + "pool.wait()\n")
    pid = busy_worker(process, tmp_path)
    [shared] = leftovers(tmp_path)
    process.kill()
    process.wait()
    assert gone(pid)
    # The next process deletes the files that the killed one could not.
    assert shared.exists()
    monkeypatch.setattr(tempfile, "tempdir", str(shared.parent))
    mine = SharedFiles()
    mine.write(memoryview(b"data"))
    assert not shared.exists()
    mine.remove()
    assert leftovers(tmp_path) == []


WAIT = """
results = []
while not results:
    try:
        print("waiting", flush=True)
        results += pool.wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
print(results)
pool.close()
"""


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_the_coordinator_handles_does_not_stop_workers(start, tmp_path):
    process = start(LONG_JOB + WAIT)

    def interrupt():
        assert process.stdout.readline() == "waiting\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"

    interrupt()  # while the worker starts
    busy_worker(process, tmp_path)
    interrupt()
    assert process.stdout.readline() == "waiting\n"
    (tmp_path / "finish").touch()
    assert output(process) == ["[(0, 'done')]"]
    assert leftovers(tmp_path) == []
