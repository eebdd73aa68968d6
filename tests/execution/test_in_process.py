import pytest
import torch
import worker_jobs

from optsmith import OptsmithError
from optsmith.execution import InProcess, Lost, Processes, default_workers, make_executor
from optsmith.execution._torch import apply_settings, current_settings


def double(context, job):
    return context * job


def threads_or_error(context, job):
    if job is not None:
        raise job
    return torch.get_num_threads()


def test_runs_one_job_in_each_wait_in_order_of_submission():
    done = []
    with InProcess() as executor:
        executor.start(lambda context, job: done.append(job) or context * job, 10)
        for job in (3, 1, 2):
            executor.submit(f"key {job}", job)
        assert done == []
        assert executor.wait() == [("key 3", 30)]
        assert done == [3]
        assert executor.wait(timeout=0) == [("key 1", 10)]
        assert executor.wait() == [("key 2", 20)]
        assert executor.wait() == []


def test_torch_has_one_thread_during_a_job_and_its_own_after():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with InProcess() as executor:
            executor.start(threads_or_error, None)
            executor.submit(0, None)
            assert executor.wait() == [(0, 1)]
            executor.submit(1, ValueError())
            executor.wait()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError("two\n  lines"), "ValueError: two lines"),
        (KeyError(), "KeyError"),
        (SystemExit(3), "SystemExit: 3"),
        (UnprintableError(), "UnprintableError"),
        (ValueError("x" * 10_000), "ValueError: " + "x" * 500 + "…"),
    ],
)
def test_an_error_is_a_lost_job_with_one_line(error, message):
    with InProcess() as executor:
        executor.start(worker_jobs.raise_error, None)
        executor.submit("key", error)
        [(key, lost)] = executor.wait()
    assert key == "key"
    assert isinstance(lost, Lost)
    assert (lost.reason, lost.message) == ("raised", message)
    assert lost.seconds >= 0


def test_a_lost_job_has_the_traceback_of_its_error():
    with InProcess() as executor:
        executor.start(worker_jobs.raise_error, None)
        executor.submit("key", ValueError("bad"))
        [(_, lost)] = executor.wait()
    assert lost.traceback.startswith("Traceback (most recent call last):\n")
    assert "worker_jobs.py" in lost.traceback.splitlines()[1]
    assert lost.traceback.endswith("ValueError: bad")
    assert not lost.is_machine


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. Tried to")])
def test_a_lack_of_memory_is_told_apart(error):
    with InProcess() as executor:
        executor.start(worker_jobs.raise_error, None)
        executor.submit("key", error)
        [(_, lost)] = executor.wait()
    assert (lost.reason, lost.is_machine, lost.traceback) == ("out_of_memory", True, "")


def test_an_interrupt_is_not_a_lost_job():
    with InProcess() as executor:
        executor.start(worker_jobs.raise_error, None)
        executor.submit("key", KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            executor.wait()


def test_nothing_runs_after_close():
    executor = InProcess()
    executor.start(double, 2)
    executor.submit(0, 0)
    executor.close()
    executor.close()
    with pytest.raises(RuntimeError, match="closed"):
        executor.submit(1, 1)
    with pytest.raises(RuntimeError, match="closed"):
        executor.wait()


def test_make_executor_chooses_by_the_number_of_workers():
    with make_executor(0) as executor:
        assert isinstance(executor, InProcess)
        assert executor.workers == 1
    with make_executor(3, time_limit=5.0) as executor:
        assert isinstance(executor, Processes)
        assert (executor.workers, executor.time_limit) == (3, 5.0)
    with pytest.raises(OptsmithError, match="time limit needs at least 1 worker"):
        make_executor(0, time_limit=5.0)


def test_default_workers_are_the_cores_we_may_use(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    assert default_workers() == 3
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    assert default_workers() == 6
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert default_workers() == 1


@pytest.mark.slow
def test_torch_settings_are_taken_over():
    before = current_settings()
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_float32_matmul_precision("medium")
        changed = current_settings()
        assert not set(changed.items()) & set(before.items())
        apply_settings(before)
        assert current_settings() == before
        apply_settings(changed)
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.empty(1).device.type == "meta"
        assert current_settings() == changed
    finally:
        apply_settings(before)
