import importlib.util
import os
import signal
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import worker_jobs
from worker_jobs import Unloadable, call

from optsmith import OptsmithError
from optsmith.execution import InProcess, Lost, Processes, _remote, _supervisor
from optsmith.execution._remote import DiedError, LateError, Remote
from optsmith.execution._serialization import pack
from optsmith.execution._torch import current_settings


def make_context():
    generator = torch.Generator().manual_seed(1)
    return {"big": torch.randn(2000, 300, generator=generator)}


@pytest.fixture(scope="module")
def pool():
    with Processes(workers=2) as pool:
        pool.start(call, make_context())
        yield pool
        assert pool.wait() == []


def collect(executor, count):
    results = {}
    while len(results) < count:
        results.update(executor.wait())
    assert len(results) == count
    return results


def one(executor, *job):
    executor.submit("key", job)
    return collect(executor, 1)["key"]


def read_when_there(path):
    for _ in range(3000):
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.02)
    raise AssertionError(f"{path} was never written")


def test_results_are_those_of_one_process(pool):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with InProcess() as alone:
            alone.start(call, make_context())
            for executor in (pool, alone):
                for seed in range(5):
                    executor.submit(seed, (worker_jobs.train, seed))
            assert collect(pool, 5) == collect(alone, 5)
    finally:
        torch.set_num_threads(before)


def test_more_jobs_than_workers_run_on_no_more_processes_than_there_are_workers(pool):
    for key in range(40):
        pool.submit(key, (worker_jobs.pid,))
    pids = set(collect(pool, 40).values())
    assert len(pids) <= 2
    assert os.getpid() not in pids


def test_results_come_in_the_order_in_which_jobs_finish(pool, tmp_path):
    flag = tmp_path / "flag"
    pool.submit("slow", (worker_jobs.wait_for, str(flag)))
    pool.submit("quick", (worker_jobs.identity, 5))
    assert pool.wait() == [("quick", 5)]
    assert pool.wait(timeout=0.05) == []
    flag.touch()
    assert pool.wait() == [("slow", "seen")]
    assert pool.wait() == []


def test_workers_have_one_thread_and_our_process_group(pool):
    assert one(pool, worker_jobs.threads) == (1, "1", "1")
    assert one(pool, worker_jobs.group) == os.getpgrp()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_large_tensor_is_mapped_and_writes_to_it_are_private(pool):
    path = one(pool, worker_jobs.mapped_file)
    assert Path(path).parent == pool._shared._directory
    assert Path(path).read_bytes() == make_context()["big"].numpy().tobytes()
    assert one(pool, worker_jobs.spoil_and_mend, path) is False


def test_large_jobs_and_results_pass(pool):
    value = torch.arange(2_000_000)
    assert torch.equal(one(pool, worker_jobs.identity, value), value)


def test_a_raised_error_is_a_lost_job(pool):
    lost = one(pool, worker_jobs.raise_error, ValueError("bad\nnews"))
    assert isinstance(lost, Lost)
    assert (lost.reason, lost.message) == ("raised", "ValueError: bad news")
    assert one(pool, worker_jobs.raise_error, SystemExit(3)).message == "SystemExit: 3"


def test_what_cannot_be_pickled_is_a_clear_error(pool):
    with pytest.raises(OptsmithError, match="a job cannot be pickled: TypeError: cannot pickle"):
        pool.submit("key", (worker_jobs.identity, threading.Lock()))
    lost = one(pool, worker_jobs.unpicklable_result)
    assert lost.reason == "raised"
    assert lost.message.startswith("the result cannot be pickled: TypeError: cannot pickle")
    lost = one(pool, worker_jobs.identity, Unloadable("raise"))
    assert lost.message == "the job cannot be unpickled: ImportError: no module for this task"


def test_prints_disturb_nobody(pool, capfd):
    assert one(pool, worker_jobs.make_noise) == b""
    assert one(pool, worker_jobs.identity, 1) == 1
    assert capfd.readouterr() == ("", "")


def test_a_job_from_a_file_loaded_by_path_runs_and_its_class_comes_back(pool, tmp_path):
    path = tmp_path / "task_by_path.py"
    path.write_text("class Answer:\n    pass\n\ndef job(context):\n    return Answer()\n")
    spec = importlib.util.spec_from_file_location("task_by_path", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["task_by_path"] = module
    try:
        spec.loader.exec_module(module)
        assert type(one(pool, module.job)) is module.Answer
    finally:
        del sys.modules["task_by_path"]


def test_jobs_that_exceed_the_time_limit_are_stopped_and_their_workers_replaced():
    with Processes(workers=1, time_limit=0.5) as pool:
        pool.start(call, None)
        lost = one(pool, worker_jobs.flood)
        assert (lost.reason, lost.message) == ("timed_out", "took longer than 0.5 s")
        assert lost.seconds >= 0.5
        pool._supervisors[0][0]._time_limit = None  # the next job may be slow on a busy machine
        assert one(pool, worker_jobs.identity, 5) == 5


def test_the_job_of_a_killed_worker_is_tried_again(pool, tmp_path):
    assert one(pool, worker_jobs.die, str(tmp_path / "deaths")) == "survived"


def test_the_job_of_two_killed_workers_is_lost(pool):
    lost = one(pool, worker_jobs.die)
    assert lost.reason == "died"
    assert lost.message == "its worker process was killed by signal 9 (SIGKILL), twice"
    assert one(pool, worker_jobs.identity, "still here") == "still here"


@pytest.mark.slow
def test_a_death_is_noticed_although_a_child_holds_the_socket(pool, tmp_path):
    log = tmp_path / "children"
    try:
        lost = one(pool, worker_jobs.die_leaving_a_child, str(log))
        assert lost.reason == "died"
        assert len(log.read_text().split()) == 2
    finally:
        for pid in log.read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def test_one_worker_runs_jobs_in_the_order_of_submission():
    with Processes(workers=1) as pool:
        pool.start(call, None)
        for key in (4, 1, 3, 0, 2):
            pool.submit(key, (worker_jobs.identity, None))
        order = []
        while len(order) < 5:
            order += [key for key, _ in pool.wait()]
        assert order == [4, 1, 3, 0, 2]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "a worker process cannot start: ImportError: no module for this task"),
        (
            "exit",
            "a worker process cannot start: it ended with exit code 7 after printing"
            ' "first line / libtorch exploded"',
        ),
    ],
)
def test_a_worker_that_cannot_start_is_one_error(how, message, monkeypatch):
    started = []
    monkeypatch.setattr(_supervisor, "Remote", lambda: started.append(Remote()) or started[-1])
    with Processes(workers=1) as pool:
        pool.start(call, Unloadable(how))
        pool.submit(0, (worker_jobs.pid,))
        pool.submit(1, (worker_jobs.pid,))
        for _ in range(2):
            with pytest.raises(OptsmithError) as caught:
                pool.wait()
            assert str(caught.value) == message
        with pytest.raises(OptsmithError):
            pool.submit(2, (worker_jobs.pid,))
    assert len(started) == 1


def test_close_ends_everything(tmp_path):
    threads = threading.active_count()
    pool = Processes(workers=3)
    pool.start(call, make_context())
    log = tmp_path / "pid"
    pool.submit("long", (worker_jobs.sleep, 600.0, str(log)))
    pid = int(read_when_there(log))
    directory = pool._shared._directory
    assert len(pool._supervisors) == 1  # workers are started on demand
    assert directory.exists()
    pool.submit("queued", (worker_jobs.identity, 1))
    pool.close()
    with pytest.raises(ProcessLookupError):  # not even a zombie
        os.kill(pid, 0)
    assert not directory.exists()
    assert threading.active_count() == threads
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(1, (worker_jobs.pid,))
    with pytest.raises(RuntimeError, match="closed"):
        pool.wait()


def test_a_worker_ends_in_the_middle_of_a_job_when_the_socket_closes(tmp_path):
    log = tmp_path / "pid"
    remote = Remote()
    try:
        setup = pack((current_settings(), pack((call, None, None))))
        assert remote.ask(setup) == pack(None)
        remote._socket.send_bytes(pack((worker_jobs.sleep, 600.0, str(log))))
        read_when_there(log)
        remote._socket.close()
        assert remote._process.wait(timeout=60) == 0  # it exited by itself
    finally:
        remote.close()


def test_a_context_that_cannot_be_pickled_is_a_clear_error():
    with Processes(workers=2) as pool:
        pool.start(call, threading.Lock())
        with pytest.raises(OptsmithError, match=r"cannot be sent to .*cannot pickle.*0 workers"):
            pool.submit(0, (worker_jobs.pid,))
    assert pool._supervisors == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 0}, "at least 1 worker process, not 0"),
        ({"workers": -2}, "at least 1 worker process, not -2"),
        ({"workers": 1, "time_limit": 0.0}, "more than 0 seconds, not 0"),
        ({"workers": 1, "time_limit": float("nan")}, "more than 0 seconds, not nan"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(OptsmithError, match=message):
        Processes(**settings)


class Dying:
    """A fake worker that answers or dies according to `fates`."""

    fates = ()
    started = 0
    limits = ()

    def __init__(self):
        Dying.started += 1
        self.alive = True

    def ask(self, message, time_limit=None):
        Dying.limits.append((message, time_limit))
        if message == b"setup":
            return pack(None)
        fate = next(Dying.fates)
        if isinstance(fate, DiedError):
            raise fate
        return pack(fate)

    def close(self):
        self.alive = False


@pytest.fixture
def supervisor(monkeypatch):
    monkeypatch.setattr(_supervisor, "Remote", Dying)
    monkeypatch.setattr(Dying, "started", 0)
    monkeypatch.setattr(Dying, "limits", [])
    return _supervisor.Supervisor(lambda: b"setup", 7.0)


def test_the_time_limit_does_not_include_the_start_of_a_worker(supervisor):
    Dying.fates = iter(["result"])
    assert supervisor.run(b"job") == "result"
    assert Dying.limits == [(b"setup", None), (b"job", 7.0)]


@pytest.mark.parametrize(
    ("waits", "is_late"), [([500.0], False), ([1.5] * 4, False), ([1.5] * 5, True)]
)
def test_time_in_which_all_processes_were_stopped_does_not_count(waits, is_late, monkeypatch):
    """A wait of one second that took much longer means that this process was stopped, too."""
    now = [0.0]
    left = iter(waits)
    remote = Remote()

    def wait(sources, timeout):
        passed = next(left, None)
        if passed is None:
            return [remote._socket]
        now[0] += passed
        return []

    monkeypatch.setattr(_remote, "wait", wait)
    monkeypatch.setattr(_remote.time, "monotonic", lambda: now[0])
    try:
        with pytest.raises(LateError) if is_late else nullcontext():
            remote._await(6.0)
    finally:
        remote.close()


def test_two_ways_to_die_are_both_told(supervisor):
    ways = ["was killed by signal 11 (SIGSEGV)", "ended with exit code 1"]
    Dying.fates = map(DiedError, ways)
    assert (
        supervisor.run(b"job").message
        == f"its worker process {ways[0]}, and its replacement {ways[1]}"
    )


def test_a_job_is_not_blamed_for_the_death_of_an_idle_worker(supervisor):
    Dying.fates = iter(["first", DiedError("once"), "second"])
    assert supervisor.run(b"job") == "first"
    supervisor._remote.alive = False
    assert supervisor.run(b"job") == "second"
    assert Dying.started == 3


@pytest.mark.parametrize("make", [InProcess, lambda: Processes(workers=1)])
def test_an_executor_is_started_once_before_its_first_job(make):
    with make() as executor:
        with pytest.raises(RuntimeError, match="was not started"):
            executor.submit(0, (worker_jobs.pid,))
        executor.start(call, None)
        with pytest.raises(RuntimeError, match="was already started"):
            executor.start(call, None)
        assert executor.wait() == []


@pytest.mark.parametrize("make", [InProcess, lambda: Processes(workers=2)])
def test_workers_can_be_started_before_there_are_jobs(make):
    with make() as executor:
        assert executor.warm_up(os.getpid)
        remotes = [s._remote for s, _ in getattr(executor, "_supervisors", ())]
        executor.start(call, None)
        assert one(executor, worker_jobs.identity, 3) == 3
        assert [s._remote for s, _ in getattr(executor, "_supervisors", ())] == remotes


def test_it_is_not_waited_for_workers_longer_than_asked():
    with Processes(workers=1) as pool:
        assert not pool.warm_up(os.getpid, timeout=0.0)


def test_a_worker_that_cannot_warm_up_says_why():
    with Processes(workers=1) as pool:
        pool.warm_up(worker_jobs.raise_at_once)
        pool.start(call, None)
        pool.submit(0, (worker_jobs.pid,))
        with pytest.raises(OptsmithError, match="a worker process cannot start: ValueError: cold"):
            pool.wait()


def test_every_worker_is_prepared_before_its_first_job_and_this_process_is_not(tmp_path):
    assert worker_jobs.prepared(None) == []
    with Processes(workers=1) as pool:
        pool.start(call, "context", worker_jobs.prepare)
        assert one(pool, worker_jobs.prepared) == ["context"]
        assert one(pool, worker_jobs.die, str(tmp_path / "deaths")) == "survived"
        assert one(pool, worker_jobs.prepared) == ["context"]  # in the worker that replaced it
    with InProcess() as alone:
        alone.start(call, "context", worker_jobs.prepare)
        assert one(alone, worker_jobs.prepared) == []
