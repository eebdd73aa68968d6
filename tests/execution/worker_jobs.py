"""Functions that tests run in workers; a module of their own, so that workers import no test."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch


def call(context, job):
    """Run any of the functions below, so that many tests can share a pool."""
    function, *arguments = job
    return function(context, *arguments)


PREPARED = []


def prepare(context):
    PREPARED.append(context)


def prepared(context):
    return PREPARED


def train(context, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(300, 40, generator=generator, requires_grad=True)
    for _ in range(3):
        loss = (context["big"] @ weights).tanh().square().mean()
        (gradient,) = torch.autograd.grad(loss, weights)
        weights = (weights - gradient).detach().requires_grad_()
    return loss.item(), weights.sum().item()


def identity(context, value):
    return value


def pid(context):
    return os.getpid()


def group(context):
    return os.getpgrp()


def threads(context):
    return torch.get_num_threads(), os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"]


def raise_error(context, error):
    raise error


def raise_at_once():
    raise ValueError("cold")


def sleep(context, seconds, log=None):
    if log is not None:
        Path(log).write_text(str(os.getpid()))
    time.sleep(seconds)


def wait_for(context, flag):
    while not Path(flag).exists():
        time.sleep(0.01)
    return "seen"


def unpicklable_result(context):
    return threading.Lock()


def make_noise(context):
    sys.stdout.write("x" * 300_000)
    os.write(1, b"\0\0\0\4evil" * 20_000)
    os.write(2, b"to stderr\n" * 20_000)
    return os.read(0, 10)


def flood(context):
    while True:
        os.write(1, b"x" * 60_000)


def die(context, log=None):
    """Kill this process; if a log file is given, only the first time."""
    if log is not None:
        if Path(log).exists():
            return "survived"
        Path(log).touch()
    os.kill(os.getpid(), signal.SIGKILL)
    return None


def die_leaving_a_child(context, log):
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    with open(log, "a") as file:
        file.write(f"{child}\n")
    os.kill(os.getpid(), signal.SIGKILL)


def mapped_file(context):
    """Return the file from which the context's tensor is mapped."""
    address = context["big"].data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, path = line.split(maxsplit=5)
        low, high = (int(x, 16) for x in span.split("-"))
        if low <= address < high:
            return path.strip()
    return None


def spoil_and_mend(context, path):
    """Return whether writes to the mapped memory change the file."""
    big = context["big"]
    before, content = big.clone(), Path(path).read_bytes()
    big.fill_(7.0)
    shows = Path(path).read_bytes() != content
    big.copy_(before)
    return shows


class Unloadable:
    """An object that a worker cannot unpickle."""

    def __init__(self, how):
        self.how = how

    def __reduce__(self):
        return fail_to_load, (self.how,)


def fail_to_load(how):
    if how == "raise":
        raise ImportError("no module for this task")
    if how == "exit":
        os.write(2, b"first line\nlibtorch exploded\n")
        os._exit(7)
